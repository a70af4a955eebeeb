// cse: computes equal pure expressions once.
//
//   %a = tg.exp %x
//   %b = tg.exp %x        →    %a = tg.exp %x
//   %c = tg.add %a, %b         %c = tg.add %a, %a
//
// Requires: stage tensor. Ensures: no two pure ops of a function have equal names, operands, attributes
// and types; the first in the text stays. The operands of a commutative op may stand in either order.
// Where: after append-grad, whose rules repeat constants and forward expressions; fuse runs it.
#include <fmt/format.h>

#include <algorithm>

#include "passes/pass.h"
#include "passes/rewrite.h"

namespace tg {
namespace {

/// Numbers values in the order they are first seen, so that keys do not depend on addresses.
class Numbering {
 public:
  size_t of(const Value* value) { return numbers_.try_emplace(value, numbers_.size()).first->second; }

 private:
  std::unordered_map<const Value*, size_t> numbers_;
};

std::string keyOf(const Operand& operand, Numbering& numbers) {
  std::string key = fmt::format("{}:{}:", static_cast<int>(operand.kind), operand.text);
  if (operand.value) key += fmt::format("%{}", numbers.of(operand.value));
  if (operand.isLiteral())
    key += operand.isInteger ? fmt::format("{}", operand.integer) : formatReal(operand.real);
  for (const Operand& item : operand.items) key += "(" + keyOf(item, numbers) + ")";
  return key;
}

/// Equal exactly for ops that compute the same.
std::string keyOf(const Op& op, Numbering& numbers) {
  std::vector<std::string> operands;
  for (const Operand& operand : op.operands) operands.push_back(keyOf(operand, numbers));
  if (op.info().has(table::commutative)) std::sort(operands.begin(), operands.end());
  std::string key(op.info().name);
  for (const std::string& operand : operands) key += " " + operand;
  for (const NamedAttr& attr : op.attrs) key += fmt::format(" {}={}", attr.name, attr.value.str());
  for (const auto& result : op.results) key += " " + result->type.str();
  return key;
}

void mergeEqual(Item& func) {
  Numbering numbers;
  std::unordered_map<std::string, Op*> first;
  std::unordered_map<const Value*, Value*> merged;
  replaceOps(func, [&](Op& op) -> Value* {
    // Results beyond the first of a merged op are redirected here, because replaceOps knows one.
    forEachUse(op, [&](Value*& value) {
      if (auto it = merged.find(value); it != merged.end()) value = it->second;
    });
    if (!op.info().has(table::pure) || op.results.empty() || !op.regions.empty()) return nullptr;
    auto [it, isNew] = first.try_emplace(keyOf(op, numbers), &op);
    if (isNew) return nullptr;
    for (size_t i = 1; i < op.results.size(); ++i) merged[op.results[i].get()] = it->second->results[i].get();
    return it->second->result();
  });
}

}  // namespace

Result<void> run_cse(Module& module, const NoOptions&, const PassContext&) {
  for (Item* func : module.all(ItemKind::func)) mergeEqual(*func);
  return {};
}

}  // namespace tg
