// SPDX-License-Identifier: Apache-2.0
// Adjoints of buffers: cotangents, gradients, and the adjoint beside each buffer that is read and written.
#pragma once

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/kernel/index_analysis.h"
#include "passes/kernel/activity.h"
#include "passes/kernel/replay.h"

namespace tg {

class AdjointMemory {
 public:
  /// `adjoints` maps the kernel's parameters to their cotangents, gradients and adjoints.
  AdjointMemory(const KernelFacts& facts, const Activity& activity, Replay& replay, KernelBuilder& builder,
                std::unordered_map<const Value*, Value*> adjoints);

  /// The type of the buffer beside `primal`: f32, vectors as scalars (their lanes count on the last axis),
  /// except of a cotangent, which is only read.
  static Type adjointType(const Type& primal, BufMode mode);

  /// Makes the adjoints of shared and local buffers, of zeros; before the backward sweep.
  void prepare();

  /// The adjoint of an element.
  KV load(const Operand& element);
  void clear(const Operand& element);
  void add(const Operand& element, const KV& g, bool uniformFlow);

  /// Whether there are adjoints that are both read and written.
  bool changes() const;

  /// The invocation's place in its workgroup.
  KV localIndex();

 private:
  enum class Way : uint8_t { alone, together, atomic };
  Way wayOf(const Operand& element, bool uniformFlow) const;
  void zero(Value* buffer, bool wholeGroup);
  std::vector<KV> at(const Operand& element, int lane);
  void addLane(Value* buffer, const std::vector<KV>& at, const KV& g, Way way);

  const KernelFacts& facts_;
  const Activity& activity_;
  Replay& replay_;
  KernelBuilder& builder_;
  std::unordered_map<const Value*, Value*> adjoints_;
  std::unordered_set<const Value*> alone_;  ///< buffers no element of which two invocations touch
};

}  // namespace tg
