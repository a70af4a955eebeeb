// SPDX-License-Identifier: Apache-2.0
// Which schedules a region may have, and which is chosen: a pure function of region and target, without
// shaderc, so that fuse writes schedules into the text and spirv-emit chooses nothing. ir/schedules.def says
// what each means.
#pragma once

#include <vector>

#include "ir/module.h"
#include "ir/rows.h"
#include "ir/schedule.h"
#include "ir/target.h"

namespace tg {

Schedule chooseSchedule(const Op& fused, const Target& target);

/// A handful of schedules worth timing on a device: the chosen one, then neighbours of it that the region
/// and the target allow. Only the chosen one for a tg.custom and for regions over groups.
std::vector<Schedule> scheduleCandidates(const Op& fused, const Target& target);

/// The same where the kernel leaves out what masks hide and what is zero, as the op's neighbours in its
/// function show: those that it reads from and those that read from it.
Schedule withSkips(const Op& fused, Schedule schedule);
/// The same where the kernel reads within the target's limits: bindings of storage, texels of a view. It is
/// lowered on trial, so that it is worth asking readsAreTight first, which is false where no limit is near.
Schedule withReads(const Op& fused, const Target& target, Schedule schedule);
bool readsAreTight(const Op& fused, const Target& target);

/// The least rows and columns of a product that is staged in shared memory; smaller ones have tiles in registers.
constexpr int64_t kLeastSharedSide = 16;

/// Every way in which chooseSchedule stages a product in shared memory.
std::vector<SharedMatmulSchedule> sharedMatmulSchedules();

/// Whether a convolution takes its weights, which lie along k, in fewer loads when they lie along the
/// channels: four in one where k comes in windows that four do not divide.
bool wantsTurned(const Op& product, const Target& target);

/// The subgroup width that kernels for the target rely on; 1 for none.
inline int64_t reliedSubgroup(const Target& target) { return target.subgroups ? target.subgroup : 1; }

/// So many rounds of the lanes that share a row are straight code, whose values stay in registers from one
/// pass over the row to the next.
constexpr int64_t kHeldRounds = 8;
/// The same where lanes of several subgroups share a row: 512 lanes read a row of GPT-2's logits from memory once. Its
/// cross entropy and gradient take 0.78 ms on an H200 with three passes over memory, 0.67 with one.
constexpr int64_t kHeldByWorkgroup = 32;
inline int64_t heldRounds(int64_t lanes, int64_t subgroup) {
  return lanes > subgroup ? kHeldByWorkgroup : kHeldRounds;
}

/// Invocations of a workgroup that goes over rows and sums them up: each subgroup takes one row after another and keeps
/// its sums in registers.
constexpr int64_t kSumGroup = 256;
/// Whether a kernel over rows may also sum up each so many neighbouring rows of what it reads and computes.
bool sumsRows(const RowSpace& rows, int64_t each, const Target& target);
/// How many rows to sum up at a time so that such a kernel keeps the device busy; 0 where it cannot.
int64_t rowsForSums(const RowSpace& rows, const Target& target);

/// Terms that a sum adds up one by one: more are summed in blocks of so many, and then the blocks' sums.
constexpr int64_t kSumBlock = 128;

/// The longest reduction over leading axes that one kernel should do where `after` results are neighbours.
int64_t longestColumn(const Target& target, int64_t after);

/// Whether an attention row is worth a kernel that recomputes its scores: they take too many bytes, and one
/// invocation can hold the rows. Otherwise its decomposition is faster, which computes each score once.
bool streamsScores(const Op& attention, const Target& target);
/// Whether matrix units would make an attention with rows of so many elements, a multiple of 16.
bool multipliesFragments(const Op& attention, const Target& target, int64_t columns);

}  // namespace tg
