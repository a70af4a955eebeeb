// SPDX-License-Identifier: Apache-2.0
// cse: common subexpression elimination: computes equal pure expressions once.
//
//   %a = tg.exp %x
//   %b = tg.exp %x        →    %a = tg.exp %x
//   %c = tg.add %a, %b         %c = tg.add %a, %a
//
// Requires: stage(tensor).
// Ensures: no two pure ops of a function have equal names, operands, attributes and types; the first in the text stays.
//   The operands of a commutative op may be in either order. Members of groups have fixed places one behind the other, so
//   two of them are not merged. A function with tg.grad stays as it is.
// Where: after append-grad, whose rules repeat constants and forward expressions; fuse runs it.
#include <unordered_map>

#include "ir/op_bytes.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace tg {
namespace {

void mergeEqualOps(Item& func) {
  ValueNumbering numbers;
  std::unordered_map<std::string, Op*> first;
  replaceOps(func, [&](Op& op) -> Value* {
    if (!op.info().has(table::pure) || op.results.empty() || !op.regions.empty()) return nullptr;
    auto [it, isNew] = first.try_emplace(keyOf(op, numbers), &op);
    if (isNew) return nullptr;
    const Op& same = *it->second;
    for (size_t i = 0; i < op.results.size(); ++i)
      if (standsInGroup(*op.results[i]) && standsInGroup(*same.results[i])) return nullptr;
    for (size_t i = 1; i < op.results.size(); ++i) op.results[i]->uses.replaceAll(same.results[i].get());
    return same.result();
  });
}

}  // namespace

Result<void> run_cse(Module& module, const NoOptions&, const PassContext&) {
  for (Item* func : module.all(ItemKind::func)) mergeEqualOps(*func);
  return {};
}

}  // namespace tg
