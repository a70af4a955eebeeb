// SPDX-License-Identifier: Apache-2.0
// Loop-invariant code of a kernel moves before its loop. Inner loops come first, so that what leaves one of
// them is looked at again in the next.
#include <unordered_set>

#include "ir/kernel/kernel.h"
#include "passes/kernel/effects.h"
#include "passes/kernel/simplify.h"

namespace tg {
namespace {

/// Whether a loop's body runs at least once for certain.
bool runs(const Op& loop) {
  const auto [from, to, step] = rangeOf(loop);
  return from.isLiteral() && to.isLiteral() && from.integer < to.integer;
}

/// Whether an access is in range for certain: a literal index of a static extent was checked by the
/// verifier, and an open extent is at least 1.
bool inRange(const Operand& element) {
  for (size_t axis = 0; axis < element.items.size(); ++axis) {
    const Operand& at = element.items[axis];
    bool open = element.value->type.shape[static_cast<int>(axis)] == Shape::kDynamic;
    if (!at.isLiteral() || (open && at.integer != 0)) return false;
  }
  return true;
}

/// What may leave one loop.
class Loop {
 public:
  Loop(Op& loop, const std::unordered_set<const Value*>& writtenAnywhere);
  /// Moves what does not change in the loop in front of it.
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

/// A load that is not done always may be the only one of what another invocation writes, or of what is
/// not written yet; done by all invocations it would be a race or read garbage.
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

/// Takes from a block in the loop. What still stands in an inner loop depends on that.
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
