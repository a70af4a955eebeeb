// SPDX-License-Identifier: Apache-2.0
#include "passes/fuse/region.h"

#include <algorithm>

#include "ir/access.h"
#include "ir/op_view.h"
#include "passes/fuse/cost.h"
#include "passes/fuse/inline_ops.h"

namespace tg::fuse {

using table::Fusion;

Region aloneInRegion(const Op& op) {
  Region region;
  region.elements = op.results.empty() ? 0 : op.result()->type.elements();
  if (isTurn(op))
    region.space = Space::closed;
  else if (auto rows = rowSpaceOf(op))
    region.space = Space::row, region.rows = *rows;
  else if (op.info().fusion == Fusion::contraction)
    region.space = Space::product;
  else if (op.code == Opcode::custom)
    region.space = Space::closed;
  else if (op.info().fusion == Fusion::reduce || op.info().fusion == Fusion::row)
    region.space = Space::sum;
  else if (op.info().fusion == Fusion::window)
    region.space = Space::sum;
  else if (op.info().fusion == Fusion::scatter || op.info().fusion == Fusion::attention)
    region.space = Space::closed;
  return region;
}

bool keepsOrder(const Op& op, const Value* base) {
  return anyUse(op, [&](const Value* value) {
    // The base may be a reshape itself, if that is stored.
    auto passes = [](const Op& def) {
      return def.code == Opcode::reshape || def.code == Opcode::stop_gradient || isWidening(def);
    };
    while (value != base && value->def && passes(*value->def)) value = value->def->in(0);
    return value == base;
  });
}

bool roundsAttention(const Op& op, const Value& value) {
  return op.code == Opcode::cast && isNarrow(op.result()->type.dtype) && value.def &&
         value.def->info().fusion == Fusion::attention;
}

bool isReadOnlyBy(const Op& op, const Region& region, const Readers& readers) {
  auto isOurs = [&](const Op* reader) { return reader == &op || contains(region.ops, reader); };
  return std::ranges::all_of(region.ops, [&](const Op* each) {
    return std::ranges::all_of(each->results, [&](const auto& result) {
      const auto* all = valueIn(readers, result.get());
      return !all || std::ranges::all_of(*all, isOurs);
    });
  });
}

bool scatters(const Region& region) { return region.ops[0]->info().fusion == Fusion::scatter; }

bool slicesFold(const Op& op, const Value& fold) {
  if (fold.def->code != Opcode::fold || (op.code != Opcode::slice && !keepsElements(op))) return false;
  int reads = 0;
  forEachUse(op, [&](const Value* value) {
    if (op.code != Opcode::slice && value->type.elements() < op.result()->type.elements()) return;  // repeats
    while (
        value != &fold && value->def &&
        (value->def->code == Opcode::slice || value->def->code == Opcode::reshape || isWidening(*value->def)))
      value = value->def->in(0);
    reads += value == &fold;
  });
  return reads == 1;
}

bool mixesRows(const Op& op, const RowSpace& rows) {
  if (op.code != Opcode::transpose) return false;
  const std::vector<int64_t> perm = as::transpose(op).perm();
  int64_t kept = 1;  // elements that stay together
  for (int axis = static_cast<int>(perm.size()) - 1; axis >= 0 && perm[static_cast<size_t>(axis)] == axis;
       --axis)
    kept *= op.result()->type.shape[axis];
  return kept < rows.length;
}

bool repeatsDraws(const Region& own, const Region& other) {
  return own.space == Space::row && other.space == Space::map && other.elements > kFewDraws &&
         std::ranges::any_of(other.ops, [](const Op* op) { return draws(*op); });
}

}  // namespace tg::fuse
