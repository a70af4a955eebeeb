// SPDX-License-Identifier: Apache-2.0
// Facts about a kernel's structure that its gradient needs.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/kernel/kernel.h"
#include "ir/module.h"

namespace tg {

/// A buffer that a block fills and then reads. When the backward sweep reverses the block, it fills the buffer again before
/// its first load, so that the loaded values need not be kept.
struct Refill {
  const Value* buffer;
  const Block* block;  ///< the innermost one around all accesses of the buffer
  std::vector<const Op*> stores, loads;
  bool all;  ///< whether the buffer has no other accesses, so that it stays as it was filled
};

/// Facts that do not change while a kernel is differentiated.
class KernelFacts {
 public:
  explicit KernelFacts(const Item& kernel);
  const Item& kernel() const { return kernel_; }
  /// The block that holds the value's op, or has it as an argument.
  const Block* owner(const Value* value) const { return owner_.at(value); }
  /// The loops around a value, or around the ops of a block, outermost first.
  std::vector<const Op*> loopsAround(const Value* value) const { return loopsAround(*owner(value)); }
  std::vector<const Op*> loopsAround(const Block& block) const;
  /// Whether no loop is around the value.
  bool outsideLoops(const Value* value) const { return loopsAround(value).empty(); }
  /// Whether the kernel writes to the buffer.
  bool isMutable(const Value* buffer) const { return mutable_.contains(buffer); }
  const std::vector<std::unique_ptr<Refill>>& refills() const { return refills_; }
  /// The refill that a load or store belongs to, or null.
  const Refill* refillOf(const Op& access) const;
  /// Whether the value comes from memory that changes, so that it can only be kept, not computed again. A load in a loop
  /// from a buffer that is refilled does not count.
  bool isMemory(const Value* value) const;
  /// The values of isMemory in a block and its ifs, but not in its loops.
  std::vector<const Value*> memoryIn(const Block& block) const;
  /// Whether the value decides which bodies a whole workgroup enters, or how often. It must stay uniform where it is kept:
  /// there may be barriers inside, or reductions of what the workgroup adds to an element's adjoint.
  bool steers(const Value* value) const { return steers_.contains(value); }
  const Uniformity& uniformity() const { return uniformity_; }
  /// Whether all invocations of a workgroup enter an op's bodies, and equally often.
  bool entersUniformly(const Op& op) const { return uniformity_.entersUniformly(op); }
  /// The number of trips of a loop whose bounds are literals, otherwise -1.
  static int64_t staticTrips(const Op& loop);

 private:
  void visit(const Block& block, const Op* parent);
  void findSteering();

  const Item& kernel_;
  Uniformity uniformity_;
  std::unordered_map<const Value*, const Block*> owner_;
  std::unordered_map<const Block*, const Op*> parent_;
  std::unordered_map<const Block*, const Block*> outer_;
  std::unordered_set<const Value*> mutable_;
  std::vector<std::unique_ptr<Refill>> refills_;
  std::unordered_map<const Op*, const Refill*> refillOf_;
  std::unordered_set<const Value*> steers_;
  bool synchronizesInside_ = false;  ///< whether some if or loop holds a barrier
};

/// The refills of a kernel. For each of them:
/// - all its stores precede its loads, with a barrier between them if the buffer is shared, and no other stores between;
/// - stores are plain, and the ops that hold them have no barriers inside;
/// - loads read only what the stores wrote since the block was entered. Either this is proved, or the buffer has no other
///   accesses and the stores go to the same elements in every iteration of the loops around.
std::vector<std::unique_ptr<Refill>> findRefills(const KernelFacts& facts);

}  // namespace tg
