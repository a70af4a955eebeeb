// SPDX-License-Identifier: Apache-2.0
// Schedules: how a region becomes one kernel. A pure function of region and target, without shaderc,
// so that fuse writes schedules into the text and spirv-emit chooses nothing.
//
//   map{vec = 4, workgroup = 64}                 one invocation for vec elements of each result
//   row{lanes = 1, vec = 4, workgroup = 64}      lanes invocations for a row, reductions along it; more rows
//                                                in a workgroup where lanes are a subgroup, or 1
//   column{lanes = 128, side = 2, vec = 4}       lanes invocations for vec neighbouring results, each a
//                                                reduction over leading axes; side of them in a workgroup
//   matmul{tile = [8, 8], depth = 8, workgroup = 8} a register tile of the product for each invocation, depth
//                                                of k at a time
//   matmul{tile = [4, 4], shared = [32, 32, 16], slices = 2}
//                                                a workgroup for a block of rows and columns, both operands
//                                                staged in shared memory 16 of k at a time; slices groups of
//                                                its invocations take a part of each step and add up at the
//                                                end
//   coopmat{tile = [128, 128, 32], warp = [64, 32]} a workgroup computes the tile in steps of 32, each of its
//                                                subgroups the warp's part by matrix units, from f16
//   attention{tile = 4, block = 4, workgroup = 8} tile rows for each invocation, which reads the rows of the
//                                                other side block by block and never stores a score
//   custom                                       a tg.custom alone, whose kernel is there already
//   parts{of = [map{…}, column{…}], results = [1, 3]} several of map, row and column side by side: each
//                                                computes so many of the results, in workgroups of its own,
//                                                all of one size
#pragma once

#include <optional>
#include <vector>

#include "ir/module.h"
#include "ir/target.h"

namespace tg {

Attr chooseSchedule(const Op& fused, const Target& target);

/// A handful of schedules worth timing on a device: the chosen one, then neighbours of it that the region
/// and the target allow. Only the chosen one for a tg.custom and for regions over groups.
std::vector<Attr> scheduleCandidates(const Op& fused, const Target& target);

/// Every way in which chooseSchedule stages a product in shared memory.
std::vector<Attr> sharedMatmulSchedules();

/// Whether a convolution takes its weights, which lie along k, in fewer loads when they lie along the
/// channels: four in one where k comes in windows that four do not divide.
bool wantsTurned(const Op& product, const Target& target);

/// Rows of a region whose reductions run along the last elements of a value.
struct RowSpace {
  int64_t rows = 0, length = 0;
  bool operator==(const RowSpace&) const = default;
};
/// The rows an op reduces along: of reductions over trailing axes and of row composites over the
/// last axis. Nothing for other ops.
std::optional<RowSpace> rowSpaceOf(const Op& op);

/// The subgroup width that kernels for the target rely on; 1 for none.
inline int64_t reliedSubgroup(const Target& target) { return target.subgroups ? target.subgroup : 1; }

/// So many rounds of the lanes that share a row are straight code, whose values stay in registers from one
/// pass over the row to the next.
constexpr int64_t kHeldRounds = 8;

/// Terms that a sum adds up one by one: more are summed in blocks of so many, and then the blocks' sums.
constexpr int64_t kSumBlock = 128;

/// The longest reduction over leading axes that one kernel should do where `after` results are neighbours.
int64_t longestColumn(const Target& target, int64_t after);

/// Whether an attention row is worth a kernel that recomputes its scores: they take too many bytes, and one
/// invocation can hold the rows. Otherwise its decomposition is faster, which computes each score once.
bool streamsScores(const Op& attention, const Target& target);

}  // namespace tg
