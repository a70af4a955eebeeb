// SPDX-License-Identifier: Apache-2.0
// Which schedules a region may have, and which one is chosen. The choice is a pure function of region and target
// and needs no shader compiler: the pass fuse writes schedules into the text, and spirv-emit chooses nothing.
// ir/schedules.def says what each schedule means.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "ir/module.h"
#include "ir/needs.h"
#include "ir/rows.h"
#include "ir/schedule.h"
#include "ir/target.h"

namespace tg {

/// The schedule that is expected to be the fastest for a region on the target.
Schedule chooseSchedule(const Op& fused, const Target& target);

/// The number of operations with which a kernel computes one element of each of these maps; other ops do not count.
int64_t sizeOfMaps(std::span<const Op* const> ops);
/// The same of the maps of a region.
int64_t sizeOfMaps(const Op& fused);

/// A handful of schedules worth timing on a device: the chosen one, then neighbours of it that the region and the
/// target allow. Only the chosen one for a tg.custom and for regions that read or write groups.
std::vector<Schedule> scheduleCandidates(const Op& fused, const Target& target);

/// The schedule with its fields set that make the kernel skip what a mask hides and what is zero. The op's
/// neighbours in its function show that: the kernels whose results it reads, and those that read its results.
Schedule withSkips(const Op& fused, Schedule schedule);
/// The schedule with its fields set that keep the kernel's reads within the target's limits of storage bindings and
/// of texel views. It lowers the region on trial, so ask readsAreTight first, which is false if no limit is near.
Schedule withReads(const Op& fused, const Target& target, Schedule schedule);
bool readsAreTight(const Op& fused, const Target& target);

/// Extents of a contraction; batch is the product of the leading axes.
struct ProductSizes {
  int64_t m, n, inner, batch;
};
/// The estimated time of a product by matrix units whose operands have 16 bits in memory, in µs on an H200, without
/// what each kernel takes beside it.
double narrowProductTime(const ProductSizes& size, const Target& target);

/// The least rows and columns of a product that is staged in shared memory; smaller ones get register tiles.
constexpr int64_t kLeastSharedSide = 16;

/// Every way in which chooseSchedule stages a product in shared memory.
std::vector<SharedMatmulSchedule> sharedMatmulSchedules();

/// Whether a convolution loads its weights, whose rows lie along k, in fewer loads if they are transposed: four at
/// a time along the channels, where four does not divide the windows along k.
bool wantsTurned(const Op& product, const Target& target);

/// The subgroup width that kernels for the target rely on; 1 for none.
inline int64_t reliedSubgroup(const Target& target) { return target.subgroups ? target.subgroup : 1; }

/// If the lanes of a row need no more rounds than this, the rounds are straight-line code and the row's values stay
/// in registers from one pass over the row to the next.
constexpr int64_t kHeldRounds = 8;
/// The same if lanes of several subgroups share a row: 512 lanes read a row of GPT-2's logits from memory once. Its
/// cross entropy and gradient take 0.78 ms on an H200 with three passes over memory, 0.67 with one.
constexpr int64_t kHeldByWorkgroup = 32;
inline int64_t heldRounds(int64_t lanes, int64_t subgroup) {
  return lanes > subgroup ? kHeldByWorkgroup : kHeldRounds;
}

/// Invocations of a workgroup that sums over rows: each of its subgroups takes one row after another and keeps its
/// partial sums in registers.
constexpr int64_t kSumGroup = 256;
/// Whether a kernel over rows may also sum over each group of `each` neighbouring rows.
bool sumsRows(const RowSpace& rows, int64_t each, const Target& target);
/// How many rows such a sum should take so that the kernel fills the device; 0 if there is no such number.
int64_t rowsForSums(const RowSpace& rows, const Target& target);

/// The number of terms that a sum adds one by one. Longer sums add up blocks of so many terms, then the blocks'
/// sums.
constexpr int64_t kSumBlock = 128;

/// The most invocations of a workgroup along x.
inline int64_t largestGroup(const Target& target) {
  return std::min(limitOf(target, LimitId::invocations), limitOf(target, LimitId::workgroupX));
}

/// The invocations of a workgroup that the target prefers, within its limits.
inline int64_t preferredGroup(const Target& target) {
  return std::min(target.workgroup, largestGroup(target));
}

/// The ids that a scatter loads before it tests the first.
constexpr int64_t kIdsAtOnce = 8;
/// Updates that a scatter of sorted ids adds in an iteration.
constexpr int64_t kSortedAtOnce = 4;

/// The longest reduction over leading axes for one kernel, if `after` elements behind the reduced axes are
/// contiguous.
int64_t longestColumn(const Target& target, int64_t after);

/// Whether an attention should be a kernel that recomputes its scores instead of storing them. Else its
/// decomposition is faster, which computes each score once. See the definition for the measurements.
bool streamsScores(const Op& attention, const Target& target);
/// Whether matrix units could compute an attention with rows of so many elements, a multiple of 16.
bool multipliesFragments(const Op& attention, const Target& target, int64_t columns);

}  // namespace tg
