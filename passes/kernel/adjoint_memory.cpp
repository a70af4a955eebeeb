// SPDX-License-Identifier: Apache-2.0
#include "passes/kernel/adjoint_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "passes/kernel/effects.h"

namespace tg {

Type AdjointMemory::adjointType(const Type& primal, BufMode mode) {
  if (mode == BufMode::in || primal.lanes == 1)
    return Type::buffer(DType::f32, mode == BufMode::in ? primal.lanes : 1, primal.shape, mode);
  Shape shape = primal.shape;
  if (shape.rank() == 0)
    shape.push(primal.lanes);
  else if (int64_t& last = shape[shape.rank() - 1]; last != Shape::kDynamic)
    last *= primal.lanes;
  return Type::buffer(DType::f32, 1, shape, mode);
}

AdjointMemory::AdjointMemory(const KernelFacts& facts, const Activity& activity, Replay& replay,
                             KernelBuilder& builder, std::unordered_map<const Value*, Value*> adjoints)
    : facts_(facts), activity_(activity), replay_(replay), builder_(builder), adjoints_(std::move(adjoints)) {
  // Loads with an inactive result do not count: the backward sweep does not touch them.
  std::unordered_map<const Value*, std::vector<const Op*>> touched;
  walk(facts.kernel().body, [&](Op& op) {
    const Operand* element = elementOf(op);
    if (!element || !activity_.active(element->value)) return;
    if (!isLoad(op) || activity_.active(op.result())) touched[element->value].push_back(&op);
  });
  IndexAnalysis analysis(facts.kernel());
  for (const auto& [buffer, ops] : touched)
    if (buffer->type.mode == BufMode::local || analysis.lanePrivate(ops)) alone_.insert(buffer);
}

KV AdjointMemory::localIndex() {
  const auto& size = facts_.kernel().workgroup;
  KV index = KernelBuilder::u32(0);
  for (int axis = 2; axis >= 0; --axis) {
    auto extent = size[static_cast<size_t>(axis)];
    if (extent == 1) continue;
    KV id = builder_.id(Opcode::k_local_id, axis);
    index = index.is(0) ? id : builder_.add(builder_.mul(index, KernelBuilder::u32(extent)), id);
  }
  return index;
}

void AdjointMemory::prepare() {
  bool shared = false;
  walk(facts_.kernel().body, [&](Op& op) {
    if (op.code != Opcode::k_shared && op.code != Opcode::k_local) return;
    if (!activity_.active(op.result())) return;
    BufMode mode = op.result()->type.mode;
    Type type = adjointType(op.result()->type, mode);
    // The forward sweep is done with its shared memory: an adjoint may take its place.
    if (mode == BufMode::shared && !std::exchange(shared, true)) builder_.barrier();
    std::string hint = fmt::format("d_{}", op.result()->name);
    Value* made =
        mode == BufMode::shared ? builder_.sharedBuffer(type, hint) : builder_.localBuffer(type, hint);
    adjoints_[op.result()] = made;
    zero(made, mode == BufMode::shared);
  });
  if (shared) builder_.barrier();
}

bool AdjointMemory::changes() const {
  return std::ranges::any_of(adjoints_, [](const auto& each) {
    BufMode mode = each.second->type.mode;
    return mode == BufMode::inout || mode == BufMode::shared;
  });
}

/// Zeroes a buffer; for shared ones, each invocation of the workgroup its share.
void AdjointMemory::zero(Value* buffer, bool wholeGroup) {
  const Shape& shape = buffer->type.shape;
  const auto& size = facts_.kernel().workgroup;
  int64_t stride = wholeGroup ? size[0] * size[1] * size[2] : 1;
  KV first = wholeGroup ? localIndex() : KernelBuilder::u32(0);
  auto store = [&](KV index) {
    std::vector<KV> at(static_cast<size_t>(shape.rank()));
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      KV extent = KernelBuilder::u32(shape[axis]);
      at[static_cast<size_t>(axis)] = axis == 0 ? index : builder_.op(Opcode::k_mod, {index, extent});
      index = builder_.op(Opcode::k_div, {index, extent});
    }
    builder_.store(KernelBuilder::f32(0), buffer, at);
  };
  if (shape.elements() == stride) return store(first);
  builder_.loop(builder_.depth(), first, KernelBuilder::u32(shape.elements()), KernelBuilder::u32(stride), {},
                [&](const KV& index, const std::vector<KV>&) {
                  store(index);
                  return std::vector<KV>{};
                });
}

/// The indices in the adjoint buffer of one lane of an element.
std::vector<KV> AdjointMemory::at(const Operand& element, int lane) {
  std::vector<KV> at = replay_.indices(element);
  int lanes = element.value->type.lanes;
  if (lanes == 1 || adjoints_.at(element.value)->type.lanes > 1) return at;
  if (at.empty()) return {KernelBuilder::u32(lane)};
  DType dtype = at.back().type.dtype;
  at.back() = builder_.add(builder_.mul(at.back(), KernelBuilder::literal(dtype, lanes)),
                           KernelBuilder::literal(dtype, lane));
  return at;
}

KV AdjointMemory::load(const Operand& element) {
  Value* buffer = adjoints_.at(element.value);
  int lanes = buffer->type.lanes > 1 ? 1 : element.value->type.lanes;
  std::vector<KV> parts;
  for (int lane = 0; lane < lanes; ++lane) {
    std::vector<KV> place = at(element, lane);
    builder_.hint("g");
    parts.push_back(builder_.loadHere(buffer, place));
  }
  return lanes == 1 ? parts[0] : builder_.vec(parts);
}

void AdjointMemory::clear(const Operand& element) {
  Value* buffer = adjoints_.at(element.value);
  if (buffer->type.mode == BufMode::in) return;  // an `out` element is written once
  for (int lane = 0; lane < element.value->type.lanes; ++lane)
    builder_.store(KernelBuilder::f32(0), buffer, at(element, lane));
}

AdjointMemory::Way AdjointMemory::wayOf(const Operand& element, bool uniformFlow) const {
  if (alone_.contains(element.value)) return Way::alone;
  const auto& size = facts_.kernel().workgroup;
  bool uniform = uniformFlow && size[0] * size[1] * size[2] > 1;
  for (const Operand& index : element.items) uniform = uniform && facts_.uniformity().uniform(index);
  return uniform ? Way::together : Way::atomic;
}

void AdjointMemory::add(const Operand& element, const KV& g, bool uniformFlow) {
  Value* buffer = adjoints_.at(element.value);
  Way way = wayOf(element, uniformFlow);
  int lanes = element.value->type.lanes;
  KV whole = g.lanes() < lanes ? builder_.splat(g, lanes) : g;
  if (way == Way::together) whole = builder_.workgroupReduce(whole, "add");
  auto each = [&] {
    for (int lane = 0; lane < lanes; ++lane)
      addLane(buffer, at(element, lane), lanes == 1 ? whole : builder_.extract(whole, lane), way);
  };
  if (way != Way::together) return each();
  std::vector<KV> places = at(element, 0);  // outside of the guard, so that later uses can share them
  builder_.guard(builder_.op(Opcode::k_eq, {localIndex(), KernelBuilder::u32(0)}), each);
}

void AdjointMemory::addLane(Value* buffer, const std::vector<KV>& at, const KV& g, Way way) {
  if (way == Way::alone)
    builder_.accumulate(g, buffer, at);
  else
    builder_.atomic(Opcode::k_atomic_add, g, buffer, at);
}

}  // namespace tg
