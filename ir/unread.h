// SPDX-License-Identifier: Apache-2.0
// Removing what nobody reads.
#pragma once

#include <algorithm>
#include <unordered_set>

#include "ir/module.h"

namespace tg {

/// Removes pure ops of which nobody reads a result, in nested regions too, from the end on, so that what only
/// a removed op read goes as well. Ops up to `last`, and those of `kept` values, stay.
inline void eraseUnread(OpList& ops, const Op* last = nullptr,
                        const std::unordered_set<const Value*>& kept = {}) {
  for (Op* op = ops.back(); op != last;) {
    Op* previous = op->previous();
    const bool read = std::any_of(op->results.begin(), op->results.end(), [&](const auto& result) {
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
