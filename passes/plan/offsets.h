// SPDX-License-Identifier: Apache-2.0
// Offsets of allocations whose lifetimes are known.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/target.h"

namespace tg::plan {

/// Bytes alive from op `first` to op `last`, both included.
struct Alloc {
  int64_t bytes = 0;  ///< a multiple of the alignment
  int first = 0;
  int last = 0;
  int64_t offset = 0;
};

/// Live bytes at each op.
std::vector<int64_t> liveBytes(const std::vector<Alloc>& allocs);
/// The most bytes alive at once: no layout is smaller.
int64_t lowerBound(const std::vector<Alloc>& allocs);
/// Gives every allocation an offset and returns the bytes needed: the smallest of greedy by size,
/// greedy by breadth (Pisarchyk and Lee, arXiv 2001.03288) and best fit in execution order, in the
/// tightest and in the lowest gap, then improved by placing what ends highest earlier. Each stays within one
/// of the target's allocations.
int64_t assignOffsets(std::vector<Alloc>& allocs, const Target& target);

}  // namespace tg::plan
