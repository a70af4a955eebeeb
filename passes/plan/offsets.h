// SPDX-License-Identifier: Apache-2.0
// Assigns offsets to allocations with known live ranges.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/target.h"

namespace tg::plan {

/// Bytes of an allocation that are alive from op `first` to op `last`, both included.
struct Piece {
  int64_t from = 0;  ///< from the allocation's start; this and `bytes` are multiples of the alignment
  int64_t bytes = 0;
  int first = 0;
  int last = 0;
};

/// A contiguous allocation, in pieces that do not overlap. While a piece is not alive, others may use its bytes.
struct Alloc {
  int64_t bytes = 0;  ///< a multiple of the alignment
  std::vector<Piece> pieces;
  int64_t offset = 0;

  int first() const;  ///< of all pieces
  int last() const;
};

/// Live bytes at each op.
std::vector<int64_t> liveBytes(const std::vector<Alloc>& allocs);
/// The peak of live bytes: no layout is smaller.
int64_t lowerBound(const std::vector<Alloc>& allocs);
/// Gives every allocation an offset and returns the bytes that all need. Tries the orders greedy by size, greedy by breadth
/// (Pisarchyk and Lee, arXiv 2001.03288) and execution order, each with the tightest and with the lowest gap, and improves
/// each by placing the allocation that ends highest earlier; keeps the smallest layout. No allocation crosses the border of
/// one of the target's memory allocations.
int64_t assignOffsets(std::vector<Alloc>& allocs, const Target& target);

}  // namespace tg::plan
