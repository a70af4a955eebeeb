// SPDX-License-Identifier: Apache-2.0
// The schedules' lowerings. Private to codegen/.
#pragma once

#include <span>

#include "codegen/emit_region.h"
#include "ir/schedule.h"

namespace tg {

/// What every schedule's lowering works with.
struct LowerContext {
  const Op& fused;
  const Target& target;
  const PlainRegion& region;
  const std::vector<bool>& mayTexel;
  const Attr& schedule;  ///< as it is written, for messages
  KernelBuilder& kernel;
  IndexSpace& space;
  RegionEmitter& emitter;
  LoweredKernel& out;
  /// The results that the schedule computes, and the slot of the first: all of the region's, or a part's.
  std::span<Value* const> yields;
  int firstSlot = 0;
  /// Of a part: its workgroups follow so many of other parts, and others may follow them.
  bool isPart = false, isLast = true;
  int64_t groupsBefore = 0;

  /// An error where so many operations would stand in straight code, without a loop: compiling them takes too
  /// long.
  Result<void> checkStraight(int64_t operations) const;
  void store(size_t slot, const Index& offset) { emitter.store(firstSlot + static_cast<int>(slot), offset); }
  /// Stores these results at one offset. Where one is stored over an operand, all are computed before the first store:
  /// another may be the first to load the operand, or load it in another shape.
  void storeAll(const std::vector<size_t>& slots, const Index& offset);
  /// Whether a result stands in the place of an operand.
  bool isInPlace() const;
  /// Runs the body under `index < count` where the index could be larger, with an index known to be smaller, which
  /// keeps its alignment.
  void bounded(const Index& index, int64_t count, const std::function<void(const Index&)>& body);
  /// A number 0 … count-1 for each invocation of a one-dimensional launch of `count` invocations in
  /// groups of `workgroup`; sets the kernel's local size and grid. The body runs under the bound.
  void launch(int64_t count, int64_t workgroup, const std::function<void(const Index&)>& body);
  /// The same for whole workgroups: the body gets the group's number, uniform in it.
  void launchGroups(int64_t groups, int64_t workgroup, const std::function<void(const Index&)>& body);

 private:
  Index groupIndex(int64_t groups);
  void inPart(int64_t groups, const std::function<void(const Index&)>& body);
};

/// The kernel of a region by a schedule that need not be its own, whatever limits of the target it breaks.
Result<LoweredKernel> lowerBy(const Op& fused, const Attr& written, const Target& target,
                              const std::vector<bool>& mayTexel);
/// An error for the first amount that `who` needs more of than the target gives.
Result<void> checkAmounts(const LoweredKernel& lowered, const Loc& loc, std::string_view who,
                          const Target& target);

/// The kernel of each kind, in the file of the kind.
#define KIND(word, Struct, ...) Result<void> lowerKernel(LowerContext& c, const Struct& schedule);
#include "ir/schedules.def"

}  // namespace tg
