// SPDX-License-Identifier: Apache-2.0
// Dead code elimination in one list of ops.
#pragma once

#include <algorithm>
#include <unordered_set>

#include "ir/module.h"

namespace tg {

/// Removes pure ops whose results have no uses, in nested regions too. Runs from the end, so that ops that only a
/// removed op used are removed as well. Ops up to `last`, and those that define `kept` values, stay.
inline void eraseUnread(OpList& ops, const Op* last = nullptr,
                        const std::unordered_set<const Value*>& kept = {}) {
  for (Op* op = ops.back(); op != last;) {
    Op* previous = op->previous();
    const bool read = std::ranges::any_of(op->results, [&](const auto& result) {
      return !result->uses.empty() || kept.contains(result.get());
    });
    if (!read && op->info().has(table::pure)) {
      ops.erase(op);
    } else {
      for (auto& region : op->regions) eraseUnread(region->ops);
    }
    op = previous;
  }
}

}  // namespace tg
