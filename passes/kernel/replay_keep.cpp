// SPDX-License-Identifier: Apache-2.0
// Keeps values of the forward sweep for the backward one: as values, in local buffers, or in tapes.
#include <algorithm>

#include "passes/kernel/replay.h"

namespace tg {

/// Values of at most this many trips and lanes are kept in local buffers instead of tapes.
constexpr int64_t kLocalTrips = 64;

/// The buffer that keeps a value of these loops; made on first use.
Replay::Slot& Replay::slotOf(const Value* value, std::vector<const Op*> loops) {
  Slot& slot = slots_[value];
  if (slot.buffer) return slot;
  slot.loops = std::move(loops);
  slot.type = value->type;
  DType dtype = value->type.dtype == DType::i1 ? DType::u32 : value->type.dtype;
  Shape shape;
  int64_t product = value->type.lanes;
  auto push = [&](int64_t extent) {
    if (shape.rank() == kMaxRank)
      rankExceeded_ = true;
    else
      shape.push(extent);
  };
  for (const Op* loop : slot.loops) {
    int64_t trips = KernelFacts::staticTrips(*loop);
    push(trips < 0 ? Shape::kDynamic : std::max<int64_t>(trips, 1));
    product = trips < 0 || product > kLocalTrips ? kLocalTrips + 1 : product * std::max<int64_t>(trips, 1);
  }
  slot.local = product <= kLocalTrips;
  const Item& kernel = facts_.kernel();
  for (int axis : launchAxes_) {
    auto at = static_cast<size_t>(axis);
    bool known = at >= kernel.grid.size() || kernel.grid[at].isLiteral();
    int64_t groups = at >= kernel.grid.size() ? 1 : kernel.grid[at].integer;
    if (!slot.local) push(known ? groups * kernel.workgroup[at] : Shape::kDynamic);
  }
  if (value->type.lanes > 1) push(value->type.lanes);
  if (shape.rank() == 0) shape.push(1);
  std::string hint = value->name + "_tape";
  if (slot.local) {
    slot.buffer = builder_.localBuffer(Type::buffer(dtype, 1, shape, BufMode::local), hint);
  } else {
    slot.buffer = builder_.parameter(Type::buffer(dtype, 1, shape, BufMode::tape), hint);
    tapes_[slot.buffer] = {slot.loops, launchAxes_};
  }
  return slot;
}

/// The indices in a slot for the current trips and this invocation.
std::vector<KV> Replay::place(const Slot& slot) {
  std::vector<KV> at;
  for (const Op* loop : slot.loops) {
    const Block* body = loop->regions[0].get();
    auto frame =
        std::find_if(frames_.rbegin(), frames_.rend(), [&](const Frame& f) { return f.block == body; });
    at.push_back(frame->trip);
  }
  if (!slot.local)
    for (int axis : launchAxes_) at.push_back(builder_.id(Opcode::k_global_id, axis));
  return at;
}

void Replay::keep(const Value* value, const KV& held, std::vector<const Op*> loops) {
  if (loops.empty()) {
    held_[value] = held;
    return;
  }
  const Slot slot = slotOf(value, std::move(loops));
  if (rankExceeded_) return;
  std::vector<KV> at = place(slot);
  KV stored = builder_.cast(held, slot.buffer->type.dtype);
  if (slot.type.lanes == 1) {
    if (at.empty()) at.push_back(KernelBuilder::u32(0));
    return builder_.store(stored, slot.buffer, at);
  }
  at.push_back({});
  for (int lane = 0; lane < slot.type.lanes; ++lane) {
    at.back() = KernelBuilder::u32(lane);
    builder_.store(builder_.extract(stored, lane), slot.buffer, at);
  }
}

KV Replay::fetch(const Value* value) {
  if (auto it = held_.find(value); it != held_.end()) return it->second;
  const Slot slot = slotOf(value, value->def ? facts_.loopsAround(value) : std::vector<const Op*>{});
  if (rankExceeded_) return KernelBuilder::literal(value->type.dtype, 0);
  std::vector<KV> at = place(slot);
  auto load = [&] {
    KV out = builder_.loadHere(slot.buffer, at);
    // The verifier does not see that a loaded value is uniform. If it decides what a workgroup runs together, a reduction
    // makes it uniform.
    bool needsUniform = facts_.steers(value) && uniformFlow() && facts_.uniformity().uniform(value);
    return needsUniform ? builder_.workgroupReduce(out, "max") : out;
  };
  builder_.hint(value->name);
  std::vector<KV> lanes;
  if (slot.type.lanes > 1) at.push_back({});
  for (int lane = 0; lane < slot.type.lanes; ++lane) {
    if (slot.type.lanes > 1) at.back() = KernelBuilder::u32(lane);
    lanes.push_back(load());
  }
  builder_.hint("");
  KV out = lanes.size() == 1 ? lanes[0] : builder_.vec(lanes);
  if (slot.type.dtype == DType::i1) out = builder_.op(Opcode::k_ne, {out, KernelBuilder::u32(0)}, DType::i1);
  return out;
}

}  // namespace tg
