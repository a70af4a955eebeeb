// SPDX-License-Identifier: Apache-2.0
// A region while form-regions puts it together, and what of it decides which ops may join.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/module.h"
#include "ir/rows.h"

namespace tg::fuse {

/// What one kernel computes in common: the shape of its loops.
enum class Space : uint8_t { map, row, product, sum, closed };

struct Region {
  Space space = Space::map;
  int64_t elements = 0;  ///< map, product, sum: of each result; a window is a sum here
  RowSpace rows;         ///< row
  std::vector<Op*> ops;  ///< in text order
  int first = 0;         ///< text position of its first op
};

/// Whether `value`, as `op` reads it, keeps its element order: only reshapes and casts from memory's type lie
/// between.
bool keepsOrder(const Op& op, const Value* base);

/// What an attention's kernel does to its results: memory takes them rounded.
bool roundsAttention(const Op& op, const Value& value);

/// Whether the invocation that writes an element sums it, in a kernel that what follows may join.
bool scatters(const Region& region);

/// Whether passes over rows would repeat draws of the map they read, one number a call: that costs more than
/// four a call once and a trip through memory. Of few elements the dispatch in between would cost more.
bool repeatsDraws(const Region& own, const Region& other);

}  // namespace tg::fuse
