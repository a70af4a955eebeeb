// SPDX-License-Identifier: Apache-2.0
#include "passes/lookup.h"

#include <algorithm>
#include <unordered_set>

namespace tg {

Result<Item*> funcNamed(std::string_view pass, Module& module, const std::string& name) {
  if (Item* func = module.func(name)) return func;
  return passError(pass, module.loc, 1, "there is no func @{}; the module has {}", name,
                   namesOf(module.all(ItemKind::func)));
}

bool hasGradients(const Item& func, std::string_view param) {
  return std::ranges::any_of(func.body.ops, [&](const Op* op) {
    return op->code == Opcode::param_grad && (param.empty() || op->operands[0].text == param);
  });
}

/// Whether a gradient can flow from a function's first result, its loss, to a parameter: not through tg.stop_gradient, nor
/// through a condition.
static bool reachesParam(const Item& func) {
  std::unordered_set<const Value*> reached;
  for (const Op* op : func.body.ops) {
    const bool reads =
        op->code == Opcode::param || anyUse(*op, [&](const Value* value) { return reached.contains(value); });
    if (!reads || op->code == Opcode::stop_gradient) continue;
    if (op->code == Opcode::return_) return op->numOperands() > 0 && reached.contains(op->in(0));
    for (const auto& result : op->results)
      if (result->type.dtype != DType::i1) reached.insert(result.get());
  }
  return false;
}

Error noGradients(std::string_view pass, const Item& func) {
  if (reachesParam(func))
    return passError(pass, func.loc, 2,
                     "@{} has no gradients; run append-grad first, for parameters that its loss depends on",
                     func.name);
  return passError(pass, func.loc, 2,
                   "@{} has no gradients: none flows from its first result, the loss, to a parameter",
                   func.name);
}

Item& stepFunction(const Module& module, Item& train) {
  for (Item* func : module.all(ItemKind::func))
    if (find(func->attrs, "every") && hasGradients(*func)) return *func;
  return train;
}

void remarkIdle(const PassContext& context, const Loc& loc, std::string_view option, std::string_view pattern,
                const std::vector<std::string>& names, std::string_view known) {
  for (bool last = false; !last;) {
    const size_t bar = pattern.find('|');
    const std::string_view part = pattern.substr(0, bar);
    last = bar == std::string_view::npos;
    if (!last) pattern.remove_prefix(bar + 1);
    auto matches = [&](const std::string& name) { return globMatch(part, name); };
    if (part.empty() || part == "*" || std::ranges::any_of(names, matches)) continue;
    context.remark(loc, "{}={} names nothing; there are {}", option, part, known);
  }
}

void remarkIdle(const PassContext& context, const Loc& loc, std::string_view option, std::string_view pattern,
                const std::vector<Item*>& items) {
  std::vector<std::string> names;
  for (const Item* item : items) names.push_back(item->name);
  remarkIdle(context, loc, option, pattern, names, namesOf(items));
}

}  // namespace tg
