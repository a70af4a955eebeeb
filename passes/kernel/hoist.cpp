// SPDX-License-Identifier: Apache-2.0
// Moves loop-invariant code of a kernel in front of its loop. Inner loops are handled first, so that code that leaves one is
// considered again for the next.
#include <unordered_set>

#include "ir/kernel/kernel.h"
#include "passes/kernel/effects.h"
#include "passes/kernel/simplify.h"

namespace tg {
namespace {

/// Whether a loop's body certainly runs at least once.
bool runs(const Op& loop) {
  const auto [from, to, step] = rangeOf(loop);
  return from.isLiteral() && to.isLiteral() && from.integer < to.integer;
}

/// Whether an access is certainly in range: the verifier has checked a literal index of a static extent, and an open extent
/// is at least 1.
bool inRange(const Operand& element) {
  for (size_t axis = 0; axis < element.items.size(); ++axis) {
    const Operand& at = element.items[axis];
    bool open = element.value->type.shape[static_cast<int>(axis)] == Shape::kDynamic;
    if (!at.isLiteral() || (open && at.integer != 0)) return false;
  }
  return true;
}

/// One loop, and the analysis of what may leave it.
class Loop {
 public:
  Loop(Op& loop, const std::unordered_set<const Value*>& writtenAnywhere);
  /// Moves loop-invariant ops in front of the loop.
  void takeInvariants() { take(*op_.regions[0], runs(op_)); }

 private:
  void define(const Block& block);
  void take(Block& block, bool always);
  bool movable(const Op& op, bool always) const;
  bool movableLoad(const Op& op, bool always) const;

  Op& op_;
  const std::unordered_set<const Value*>& writtenAnywhere_;
  std::unordered_set<const Value*> inside_, writtenHere_;
  bool synchronizes_ = false;
};

Loop::Loop(Op& loop, const std::unordered_set<const Value*>& writtenAnywhere)
    : op_(loop), writtenAnywhere_(writtenAnywhere) {
  define(*loop.regions[0]);
}

void Loop::define(const Block& block) {
  for (const auto& arg : block.args) inside_.insert(arg.get());
  for (Op* op : block.ops) {
    for (const auto& result : op->results) inside_.insert(result.get());
    if (writesElement(*op)) writtenHere_.insert(elementOf(*op)->value);
    synchronizes_ |= synchronizes(*op);
    for (const auto& region : op->regions) define(*region);
  }
}

/// Whether a load may leave the loop. One that does not always run may be guarded against elements that another invocation
/// writes, or that are not written yet: run by all invocations it would be a race or read garbage.
bool Loop::movableLoad(const Op& op, bool always) const {
  const Value* buffer = elementOf(op)->value;
  BufMode mode = buffer->type.mode;
  bool constant = !writtenAnywhere_.contains(buffer);
  bool ordered = synchronizes_ && mode != BufMode::local;
  if (!constant && (writtenHere_.contains(buffer) || ordered)) return false;
  return always || (constant && (mode == BufMode::in || mode == BufMode::inout) && inRange(*elementOf(op)));
}

bool Loop::movable(const Op& op, bool always) const {
  bool load = isLoad(op);
  if (!load && !isArithmetic(op)) return false;
  bool invariant = true;
  forEachUse(op, [&](Value* value) { invariant &= !inside_.contains(value); });
  return invariant && (!load || movableLoad(op, always));
}

/// Moves ops out of a block in the loop. Ops that still are in an inner loop depend on that one. `always`: the block runs.
void Loop::take(Block& block, bool always) {
  for (Op* op : block.ops.all()) {
    if (movable(*op, always)) {
      for (const auto& result : op->results) inside_.erase(result.get());
      op_.list()->insert(&op_, block.ops.take(op));
    } else if (op->code == Opcode::k_if) {
      for (auto& region : op->regions) take(*region, false);
    }
  }
}

void hoist(Block& block, const std::unordered_set<const Value*>& written) {
  for (Op* op : block.ops) {
    for (auto& region : op->regions) hoist(*region, written);
    if (op->code == Opcode::k_for) Loop(*op, written).takeInvariants();
  }
}

}  // namespace

void hoistInvariants(Item& kernel) {
  makeNamesUnique(kernel);
  hoist(kernel.body, writtenBuffers(kernel));
}

}  // namespace tg
