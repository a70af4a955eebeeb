// SPDX-License-Identifier: Apache-2.0
#include "passes/kernel/vjp_steps.h"

#include <unordered_set>

#include "ir/kernel/index_analysis.h"
#include "ir/kernel/kernel.h"
#include "passes/kernel/effects.h"
#include "passes/kernel/simplify.h"

namespace tg {
namespace {

class Lifter {
 public:
  explicit Lifter(Item& kernel) : analysis_(kernel) {
    Uniformity uniformity(kernel);
    const std::unordered_set<const Value*> written = writtenBuffers(kernel);
    walk(kernel.body, [&](Op& op) {
      if (op.code == Opcode::k_load && !written.contains(elementOf(op)->value) &&
          uniformity.uniform(*elementOf(op)))
        liftable_.insert(&op);
    });
    lift(kernel.body);
  }

 private:
  void lift(Block& block) {
    for (Op* op : block.ops) {
      for (auto& region : op->regions) lift(*region);
      if (op->code == Opcode::k_if)
        for (auto& region : op->regions) take(*region, *op);
    }
  }

  /// Moves loads out of a body of `branch`, in front of it. The condition then no longer guards them, so their indices must
  /// be in range without it.
  void take(Block& region, Op& branch) {
    std::unordered_set<const Value*> inside;
    for (Op* op : region.ops.all()) {
      bool free = liftable_.contains(op);
      forEachUse(static_cast<const Op&>(*op), [&](Value* value) { free &= !inside.contains(value); });
      free = free && analysis_.inRange(*op, branch);
      if (free)
        branch.list()->insert(&branch, region.ops.take(op));
      else
        for (const auto& result : op->results) inside.insert(result.get());
    }
  }

  const IndexAnalysis analysis_;
  std::unordered_set<const Op*> liftable_;  ///< candidates, before their guards are considered
};

}  // namespace

void liftUniformLoads(Item& kernel) {
  makeNamesUnique(kernel);
  Lifter lifter(kernel);
}

}  // namespace tg
