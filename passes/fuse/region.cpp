// SPDX-License-Identifier: Apache-2.0
#include "passes/fuse/region.h"

#include <algorithm>

#include "passes/fuse/cost.h"
#include "passes/fuse/inline_ops.h"

namespace tg::fuse {

using table::Fusion;

bool keepsOrder(const Op& op, const Value* base) {
  bool found = false;
  forEachUse(op, [&](Value* value) {
    value = throughReshapes(value);
    while (value != base && value->def && isWidening(*value->def)) value = throughReshapes(value->def->in(0));
    found = found || value == base;
  });
  return found;
}

bool roundsAttention(const Op& op, const Value& value) {
  return op.code == Opcode::cast && isNarrow(op.result()->type.dtype) && value.def &&
         value.def->info().fusion == Fusion::attention;
}

bool scatters(const Region& region) { return region.ops[0]->info().fusion == Fusion::scatter; }

bool repeatsDraws(const Region& own, const Region& other) {
  return own.space == Space::row && other.space == Space::map && other.elements > kFewDraws &&
         std::any_of(other.ops.begin(), other.ops.end(), [](const Op* op) { return draws(*op); });
}

}  // namespace tg::fuse
