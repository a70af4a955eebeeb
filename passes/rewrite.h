// SPDX-License-Identifier: Apache-2.0
// Helpers for passes that rewrite functions: visiting ops while values are replaced, and decomposing composites.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "ir/access.h"
#include "ir/builder.h"
#include "ir/module.h"
#include "ir/parser.h"

namespace tg {

/// Whether some region binds a value as a member of a group, as those of flatten-optimizer bind gradients. Members have
/// fixed places one behind the other, so that two of them must not become one value.
inline bool standsInGroup(const Value& value) {
  return std::ranges::any_of(value.uses, [&](const Use& use) {
    const Op& user = *use.user();
    if (user.code != Opcode::fused) return false;
    for (int binding = 0; binding < user.numOperands(); ++binding) {
      if (!user.operands[binding].bindsGroup()) continue;
      const std::vector<Value*> members = bindingSources(user, binding);
      if (contains(members, &value)) return true;
    }
    return false;
  });
}

/// Whether a function has tg.grad, whose result depends on the uses of values. Passes that change uses leave it as it is.
inline bool hasGrad(const Item& func) {
  return std::ranges::any_of(func.body.ops, [](const Op* op) { return op->code == Opcode::grad; });
}

/// Visits the ops of a function once, in text order, and calls `fold` on each. `fold` sees the replacements so far. It may
/// change the op in place, or return a value that replaces the op's only result; the op is then erased, unless both values
/// are members of groups. A function with tg.grad stays as it is.
inline void replaceOps(Item& func, const std::function<Value*(Op&)>& fold) {
  if (hasGrad(func)) return;
  for (Op* op = func.body.ops.front(); op;) {
    Op* next = op->next();
    Value* other = fold(*op);
    if (other && !(standsInGroup(*op->result()) && standsInGroup(*other))) {
      op->result()->uses.replaceAll(other);
      func.body.ops.erase(op);
    }
    op = next;
  }
}

/// The module's kernel that equals `kernel`, or `kernel` itself, which is added behind `forward` or at the end. If another
/// kernel has its name, it is called name_2, name_3, ….
inline const Item& placeKernel(Module& module, std::unique_ptr<Item> kernel, const Item* forward = nullptr) {
  const std::string name = kernel->name;
  for (int next = 2;; ++next) {
    const Item* there = module.find(ItemKind::kernel, kernel->name);
    if (there && print(*there) == print(*kernel)) return *there;
    if (!there) break;
    kernel->name = fmt::format("{}_{}", name, next);
  }
  auto at = std::ranges::find_if(module.items, [&](const auto& item) { return item.get() == forward; });
  return **module.items.insert(at == module.items.end() ? at : at + 1, std::move(kernel));
}

/// Gives an op's result another element type. A cast behind the op has the old type and name, and all users read that. It
/// rounds if the new type is the narrower one.
inline void retypeResult(Op& op, Value& result, DType dtype, Builder& builder) {
  const DType old = result.type.dtype;
  result.type.dtype = dtype;
  builder.setBefore(op.next()).setLoc(op.loc).setHint(fmt::format("{}_{}", result.name, name(dtype)));
  Op* cast = builder.create(Opcode::cast, {Operand::of(&result)}, {}, {Type::tensor(old, result.type.shape)});
  result.uses.replaceAll(cast->result());
  cast->operands[0] = Operand::of(&result);
  std::swap(cast->result()->name, result.name);
}

/// Emits the decomposition of a composite at the builder's place and returns its results. They take the names of the op's
/// results, except a value that is an operand of the op, such as that of a view that changes nothing.
inline std::vector<Value*> expandOp(const Op& op, Builder& builder) {
  std::vector<Value*> operands;
  for (const Operand& operand : op.operands) operands.push_back(operand.value);
  std::vector<Value*> results = decompose(op, operands, builder);
  for (size_t i = 0; i < results.size(); ++i)
    if (!contains(operands, results[i])) results[i]->name = op.results[i]->name;
  return results;
}

/// Replaces the composites of a function for which `chosen` is true by their decompositions.
inline void expandOps(Module& module, Item& func, const std::function<bool(const Op&)>& chosen) {
  auto expands = [&](const Op& op) { return op.info().has(table::composite) && chosen(op); };
  if (std::ranges::none_of(func.body.ops, [&](const Op* op) { return expands(*op); })) return;
  Builder builder(&module, &func);
  for (Op* op = func.body.ops.front(); op;) {
    Op* next = op->next();
    if (expands(*op)) {
      builder.setLoc(op->loc);
      builder.setBefore(op);
      std::vector<Value*> results = expandOp(*op, builder);
      for (size_t i = 0; i < results.size(); ++i) op->results[i]->uses.replaceAll(results[i]);
      func.body.ops.erase(op);
    }
    op = next;
  }
}

}  // namespace tg
