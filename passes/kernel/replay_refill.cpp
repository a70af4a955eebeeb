// SPDX-License-Identifier: Apache-2.0
// Fills buffers again in the backward sweep, so that values loaded from them need not be kept.
#include <cassert>
#include <utility>

#include "passes/kernel/effects.h"
#include "passes/kernel/replay.h"

namespace tg {

/// Chooses the buffer for each refill. A buffer that the kernel's body fills once is not written again: the backward sweep
/// reads it where it is, if shared memory has room. Otherwise a second buffer is filled; the one of the forward sweep, which
/// then has few readers, is dropped with its stores.
void Replay::declareRefills(int64_t sharedBytes) {
  for (const auto& refill : facts_.refills()) {
    const Value& primal = *refill->buffer;
    bool local = primal.type.mode == BufMode::local;
    bool fits = local || isNarrow(primal.type.dtype) || primal.type.bytes() <= sharedBytes;
    if (fits && !local) sharedBytes -= primal.type.bytes();
    FilledAgain& again = refills_[refill.get()];
    if (!fits)
      again = tapeFor(primal);
    else if (refill->all && refill->block == &facts_.kernel().body)
      again.buffer = buffers_.at(&primal);
    else
      again.buffer = local ? builder_.localBuffer(primal.type, primal.name)
                           : builder_.sharedBuffer(primal.type, primal.name);
  }
}

/// Whether the backward sweep reads the forward sweep's buffer as it is.
bool Replay::stays(const Refill& refill) const {
  return refills_.at(&refill).buffer == buffers_.at(refill.buffer);
}

/// Declares a tape with a copy of the buffer for each workgroup.
Replay::FilledAgain Replay::tapeFor(const Value& primal) {
  const Item& kernel = facts_.kernel();
  FilledAgain out;
  Shape shape;
  for (size_t axis = 0; axis < kernel.grid.size(); ++axis) {
    const Operand& groups = kernel.grid[axis];
    if (groups.isLiteral() && groups.integer == 1) continue;
    out.groups.push_back(static_cast<int>(axis));
    shape.push(groups.isLiteral() ? groups.integer : Shape::kDynamic);
  }
  for (int64_t extent : primal.type.shape) {
    if (shape.rank() == kMaxRank)
      rankExceeded_ = true;
    else
      shape.push(extent);
  }
  out.buffer = builder_.parameter(Type::buffer(primal.type.dtype, primal.type.lanes, shape, BufMode::tape),
                                  primal.name + "_tape");
  tapes_[out.buffer] = {{}, out.groups, true};
  return out;
}

/// Emits a load here. In the backward sweep, a buffer that is refilled is filled first and loaded from its refill.
KV Replay::loaded(const Op& op) {
  const Operand& element = *elementOf(op);
  const Refill* refill = sweeping_ ? nullptr : facts_.refillOf(op);
  if (refill && !stays(*refill)) fill(*refill->block);
  std::vector<KV> at = refill ? placeAgain(refills_.at(refill), element) : indices(element);
  Value* from = refill ? refills_.at(refill).buffer : buffer(element.value);
  builder_.setLoc(derivedLoc("vjp", op.loc));
  builder_.hint(op.result()->name);
  KV out = builder_.loadHere(from, at);
  builder_.hint("");
  return out;
}

std::vector<KV> Replay::placeAgain(const FilledAgain& target, const Operand& element) {
  std::vector<KV> at;
  for (int axis : target.groups) at.push_back(builder_.id(Opcode::k_workgroup_id, axis));
  for (const KV& index : indices(element)) at.push_back(index);
  return at;
}

/// Whether an op, or one in its bodies, fills a buffer of `block` that must be filled again.
bool Replay::fills(const Op& op, const Block& block) const {
  if (const Refill* refill = facts_.refillOf(op))
    return writesElement(op) && refill->block == &block && !stays(*refill);
  return anyInside(op, [&](const Op& inner) { return fills(inner, block); });
}

/// Fills the buffers of an open block again, unless that was done since it was opened. A barrier before it waits for loads
/// of an earlier iteration, and one behind it makes the result visible to the workgroup.
void Replay::fill(const Block& block) {
  size_t frame = frames_.size();
  while (frames_[--frame].block != &block)
    assert(frame > 0 && "what fills a buffer is open where it is read");
  if (std::exchange(frames_[frame].filled, true)) return;
  const Op* end = block.ops.front();
  bool shared = false;
  for (const Op* op : block.ops)
    if (fills(*op, block)) end = op->next();
  for (const auto& refill : facts_.refills())
    shared |= refill->buffer->type.mode == BufMode::shared && refill->block == &block;
  run(frame, [&] {
    if (shared) builder_.barrier();
    for (const Op* op = block.ops.front(); op != end; op = op->next()) {
      if (shared && synchronizes(*op)) builder_.barrier();
      if (fills(*op, block)) fillBy(*op, block);
    }
    if (shared) builder_.barrier();
  });
}

/// Repeats the stores of an op to the buffers of `block`.
void Replay::fillBy(const Op& op, const Block& block) {
  auto body = [&](const Block& region) {
    for (Op* inner : region.ops)
      if (fills(*inner, block)) fillBy(*inner, block);
  };
  if (op.code == Opcode::k_for) {
    runLoop(op, Kind::again, false, body);
  } else if (op.code == Opcode::k_if) {
    bool uniform = uniformFlow() && facts_.entersUniformly(op);
    auto side = [&](size_t region) {
      enter(*op.regions[region], Kind::again, uniform);
      body(*op.regions[region]);
      frames_.pop_back();
      return std::vector<KV>{};
    };
    branch(op, {}, side);
  } else {
    const FilledAgain& target = refills_.at(facts_.refillOf(op));
    KV value = operand(op, 0);
    std::vector<KV> at = placeAgain(target, *elementOf(op));
    builder_.setLoc(derivedLoc("vjp", op.loc));
    builder_.store(value, target.buffer, at);
  }
}

}  // namespace tg
