// SPDX-License-Identifier: Apache-2.0
// Adjoints of buffers: cotangents, gradients, and for each buffer that is read and written a second buffer.
#pragma once

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/kernel/index_analysis.h"
#include "passes/kernel/activity.h"
#include "passes/kernel/replay.h"

namespace tg {

/// Accesses the adjoints of buffer elements. Additions are plain where one invocation owns the element, one atomic for the
/// workgroup after a reduction where all add to the same element, and otherwise one atomic for each invocation.
class AdjointMemory {
 public:
  /// `adjoints` maps the kernel's parameters to their adjoint buffers.
  AdjointMemory(const KernelFacts& facts, const Activity& activity, Replay& replay, KernelBuilder& builder,
                std::unordered_map<const Value*, Value*> adjoints);

  /// The type of the adjoint buffer of `primal`: f32, with the lanes of vectors as scalars along the last axis. Only a
  /// cotangent, which is only read, keeps its vectors.
  static Type adjointType(const Type& primal, BufMode mode);

  /// Creates the adjoints of shared and local buffers, zeroed. Call it before the backward sweep.
  void prepare();

  /// The adjoint of an element. clear() sets it to zero, add() adds `g`.
  KV load(const Operand& element);
  void clear(const Operand& element);
  void add(const Operand& element, const KV& g, bool uniformFlow);

  /// Whether some adjoint buffer is both read and written.
  bool changes() const;

  /// The invocation's flat index in its workgroup.
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
  std::unordered_set<const Value*> alone_;  ///< buffers of which no two invocations access the same element
};

}  // namespace tg
