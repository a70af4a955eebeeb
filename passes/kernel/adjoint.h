// SPDX-License-Identifier: Apache-2.0
// The backward sweep of a VJP: control flow, and what an adjoint goes through on its way.
#pragma once

#include <unordered_map>
#include <vector>

#include "passes/kernel/activity.h"
#include "passes/kernel/adjoint_memory.h"
#include "passes/kernel/replay.h"

namespace tg {

class AdjointSweep {
 public:
  AdjointSweep(const Module& module, const KernelFacts& facts, const Activity& activity, Replay& replay,
               KernelBuilder& builder, AdjointMemory& memory)
      : module_(module), facts_(facts), activity_(activity), replay_(replay), builder_(builder),
        memory_(memory) {}

  /// Walks the kernel's body backward, after Replay::sweep.
  void run();

 private:
  using Sums = std::unordered_map<const Value*, KV>;

  void reverse(const Block& block);
  void reverseOp(const Op& op);
  void reverseIf(const Op& op);
  void reverseLoop(const Op& op);
  /// Opens a body, gives the values it yields their adjoints, and walks it.
  void reverseBody(const Block& body, const std::vector<KV>& yielded);
  /// The active values from outside that a body reads, in text order.
  std::vector<const Value*> captured(const Op& op) const;
  void barrierIfNeeded(const Op& op);

  // adjoint_rules.cpp: an op's result adjoint becomes its operands'.
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
  /// The term of operand `index` in an adjoint of `g`: zero where g is, whatever the factor.
  KV settled(const Op& op, size_t index, const KV& g, const KV& term);

  void add(const Operand& operand, const KV& g);
  void add(const Value* value, KV g);
  /// The adjoint gathered so far, which is then gone; a literal 0 when there is none.
  KV take(const Value* value);

  const Module& module_;
  const KernelFacts& facts_;
  const Activity& activity_;
  Replay& replay_;
  KernelBuilder& builder_;
  AdjointMemory& memory_;
  std::vector<Sums> sums_;  ///< one for each open block
};

}  // namespace tg
