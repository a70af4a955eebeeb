// SPDX-License-Identifier: Apache-2.0
// The backward sweep of a VJP: control flow, and the rules by which an op's result adjoint becomes its operands'.
#pragma once

#include <unordered_map>
#include <vector>

#include "passes/kernel/activity.h"
#include "passes/kernel/adjoint_memory.h"
#include "passes/kernel/replay.h"

namespace tg {

/// Walks a kernel backward and emits, for each active op, the adjoints of its operands.
class AdjointSweep {
 public:
  AdjointSweep(const Module& module, const KernelFacts& facts, const Activity& activity, Replay& replay,
               KernelBuilder& builder, AdjointMemory& memory)
      : module_(module), facts_(facts), activity_(activity), replay_(replay), builder_(builder),
        memory_(memory) {}

  /// Sweeps the kernel's body backward. Call it after Replay::sweep.
  void run();

 private:
  using Sums = std::unordered_map<const Value*, KV>;

  void reverse(const Block& block);
  void reverseOp(const Op& op);
  void reverseIf(const Op& op);
  void reverseLoop(const Op& op);
  /// Starts a block: gives the values that it yields their adjoints, and sweeps it backward. The caller pops sums_.
  void reverseBody(const Block& body, const std::vector<KV>& yielded);
  /// The active values from outside that the op's bodies read, in text order.
  std::vector<const Value*> captured(const Op& op) const;
  void barrierIfNeeded(const Op& op);

  // adjoint_rules.cpp: turn an op's result adjoint into its operands' adjoints.
  void distribute(const Op& op, const KV& g);
  void distributeScalar(const Op& op, const KV& g);
  void distributeReduce(const Op& op, const KV& g);
  void distributeShuffle(const Op& op, const KV& g);
  void distributeCall(const Op& op);
  void distributeMemory(const Op& op);
  KV productOfOthers(const Op& op, const KV& x, const KV& r);
  KV reduced(const Op& op, const KV& x, std::string_view kind);
  KV place(const Op& op);
  bool hasPole(const Op& op, size_t index) const;
  /// `term`, operand `index`'s part of the adjoint g, made zero where g is zero, even if the factor is not finite.
  KV settled(const Op& op, size_t index, const KV& g, const KV& term);

  void add(const Operand& operand, const KV& g);
  void add(const Value* value, KV g);
  /// Returns the adjoint summed so far and removes it; a literal 0 if there is none.
  KV take(const Value* value);

  const Module& module_;
  const KernelFacts& facts_;
  const Activity& activity_;
  Replay& replay_;
  KernelBuilder& builder_;
  AdjointMemory& memory_;
  std::vector<Sums> sums_;  ///< adjoints so far, one map for each open block
};

}  // namespace tg
