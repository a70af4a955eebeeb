// SPDX-License-Identifier: Apache-2.0
// The lowering of each kind of schedule, and what they share. Private to codegen/.
#pragma once

#include <span>

#include "codegen/emit_region.h"
#include "ir/schedule.h"

namespace tg {

/// What the lowering of a schedule works with: the region and the target, the kernel being built, and the range of
/// results to compute.
struct LowerContext {
  const Op& fused;
  const Target& target;
  const PlainRegion& region;
  const std::vector<bool>& mayTexel;
  const Attr& schedule;  ///< as written in the text, for messages
  KernelBuilder& kernel;
  IndexSpace& space;
  RegionEmitter& emitter;
  LoweredKernel& out;
  /// The results that the schedule computes, and the slot of the first. All of the region's results, or a part's.
  std::span<Value* const> yields;
  int firstSlot = 0;
  /// Whether this is a part of a kernel (schedule `parts`), and the last one; the number of workgroups before its
  /// own.
  bool isPart = false, isLast = true;
  int64_t groupsBefore = 0;

  /// An error if straight-line code would have too many operations, which take too long to compile.
  Result<void> checkStraight(int64_t operations) const;
  void store(size_t slot, const Index& offset) { emitter.store(firstSlot + static_cast<int>(slot), offset); }
  /// Stores these results at one offset. If a result is stored in place of an operand, all are computed before the
  /// first store, since a later result may read the operand too, or in another shape.
  void storeAll(const std::vector<size_t>& slots, const Index& offset);
  /// Whether a result is stored in place of an operand.
  bool isInPlace() const;
  /// Emits the body under the predicate index < count, or without one if it always holds. The body gets an index
  /// that is known to be below count and has the same alignment.
  void bounded(const Index& index, int64_t count, const std::function<void(const Index&)>& body);
  /// Launches `count` invocations in one dimension, in groups of `workgroup`. The body gets the invocation's number
  /// 0 … count-1; surplus invocations skip it. Sets the kernel's workgroup size and grid.
  void launch(int64_t count, int64_t workgroup, const std::function<void(const Index&)>& body);
  /// The same for whole workgroups: the body gets the number of the group, which is uniform.
  void launchGroups(int64_t groups, int64_t workgroup, const std::function<void(const Index&)>& body);

 private:
  Index groupIndex(int64_t groups);
  void inPart(int64_t groups, const std::function<void(const Index&)>& body);
};

/// Lowers a region by a given schedule, which need not be its own, without checking the target's limits.
Result<LoweredKernel> lowerBy(const Op& fused, const Attr& written, const Target& target,
                              const std::vector<bool>& mayTexel);
/// An error for the first limit of the target that the kernel exceeds; `who` names the kernel in the message.
Result<void> checkAmounts(const LoweredKernel& lowered, const Loc& loc, std::string_view who,
                          const Target& target);

/// The lowering of each kind of schedule, in the file of the kind.
#define KIND(word, Struct, ...) Result<void> lowerKernel(LowerContext& c, const Struct& schedule);
#include "ir/schedules.def"

}  // namespace tg
