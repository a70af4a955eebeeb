// SPDX-License-Identifier: Apache-2.0
// What of a kernel's structure its gradient asks for.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/kernel/kernel.h"
#include "passes/kernel/refill.h"

namespace tg {

/// Facts about a kernel that never change while it is differentiated.
class KernelFacts {
 public:
  explicit KernelFacts(const Item& kernel);
  const Item& kernel() const { return kernel_; }
  /// The block whose op or argument the value is.
  const Block* owner(const Value* value) const { return owner_.at(value); }
  /// The loops around a value, or around the ops of a block, outermost first.
  std::vector<const Op*> loopsAround(const Value* value) const { return loopsAround(*owner(value)); }
  std::vector<const Op*> loopsAround(const Block& block) const;
  /// Whether the value stands nowhere but in the kernel's body and bodies of `if`.
  bool outsideLoops(const Value* value) const { return loopsAround(value).empty(); }
  /// Whether anything is written to the buffer.
  bool isMutable(const Value* buffer) const { return mutable_.contains(buffer); }
  const std::vector<std::unique_ptr<Refill>>& refills() const { return refills_; }
  /// The refill that a load or store belongs to, or null.
  const Refill* refillOf(const Op& access) const;
  /// Whether the value comes from memory that changes: it can only be kept, not computed again. What a loop
  /// loads from a buffer that is filled again is no such value.
  bool isMemory(const Value* value) const;
  /// Results of memory in a block and its ifs, but not in loops.
  std::vector<const Value*> memoryIn(const Block& block) const;
  /// Whether an if or loop holds a barrier. Its condition or bounds must then stay uniform.
  bool synchronizesInside() const { return synchronizesInside_; }
  const Uniformity& uniformity() const { return uniformity_; }
  /// Whether all invocations of a workgroup enter an op's bodies, and equally often.
  bool entersUniformly(const Op& op) const { return uniformity_.entersUniformly(op); }
  /// The trips of a loop whose bounds are literals, else -1.
  static int64_t staticTrips(const Op& loop);

 private:
  void visit(const Block& block, const Op* parent);

  const Item& kernel_;
  Uniformity uniformity_;
  std::unordered_map<const Value*, const Block*> owner_;
  std::unordered_map<const Block*, const Op*> parent_;
  std::unordered_map<const Block*, const Block*> outer_;
  std::unordered_set<const Value*> mutable_;
  std::vector<std::unique_ptr<Refill>> refills_;
  std::unordered_map<const Op*, const Refill*> refillOf_;
  bool synchronizesInside_ = false;
};

}  // namespace tg
