// SPDX-License-Identifier: Apache-2.0
// 16-bit reals in memory as words: one access of 16 bytes moves eight of them.
#include "codegen/emit_region.h"
#include "ir/op_view.h"

namespace tg {
KV beforeRounding(const KV& element, DType dtype) {
  const Op* op = element.value ? element.value->def : nullptr;
  if (!op || op->code != roundOp(dtype) || !op->in(0)) return element;
  KV whole = element;
  whole.value = op->in(0);
  return whole;
}

KV packedWords(KernelBuilder& kernel, DType narrow, const KV& low, const KV& high) {
  const Opcode pack = narrow == DType::f16 ? Opcode::k_pack_f16 : Opcode::k_pack_bf16;
  std::vector<KV> words;
  for (const KV* half : {&low, &high})
    for (int lane = 0; lane < kLanes; lane += 2)
      words.push_back(
          kernel.op(pack, {kernel.extract(*half, lane), kernel.extract(*half, lane + 1)}, DType::u32));
  return kernel.vec(words);
}

std::array<KV, 2> halvedWords(KernelBuilder& kernel, const KV& first, const KV& second, double lowScale) {
  constexpr uint32_t kDropped = 0x1fff;  // the bits of an f32's significand that f16 lacks
  std::array<KV, 2> high, low;
  for (size_t four = 0; four < 2; ++four) {
    const KV& x = four == 0 ? first : second;
    const KV up = kernel.add(kernel.bitcast(x, DType::u32), KernelBuilder::u32((kDropped + 1) / 2));
    const KV bits = kernel.op(Opcode::k_and, {up, KernelBuilder::u32(~kDropped)}, DType::u32);
    high[four] = kernel.bitcast(bits, DType::f32);
    low[four] = kernel.op(Opcode::k_sub, {x, high[four]}, DType::f32);
    if (lowScale != 1) low[four] = kernel.mul(low[four], KernelBuilder::f32(lowScale));
  }
  return {packedWords(kernel, DType::f16, high[0], high[1]), packedWords(kernel, DType::f16, low[0], low[1])};
}

/// The type of a buffer of rows: scalars, or vectors of four words with eight 16-bit elements.
static Type rowsOf(DType dtype, int64_t rows, int64_t columns, BufMode mode) {
  return isNarrow(dtype) ? Type::buffer(DType::u32, kLanes, {rows, columns / kEight}, mode)
                         : Type::buffer(dtype, 1, {rows, columns}, mode);
}

Value* RegionEmitter::resultRows(int slot, int64_t rows, int64_t columns) {
  const DType dtype = region_.yields[static_cast<size_t>(slot)]->type.dtype;
  return parameterAs(true, slot, 'm', rowsOf(dtype, rows, columns, BufMode::out));
}

Value* RegionEmitter::bindingRows(const Value* v, int64_t rows, int64_t columns) {
  auto it = bindingOf_.find(v);
  if (it == bindingOf_.end() || mayTexel_[static_cast<size_t>(it->second)]) return nullptr;
  return parameterAs(false, it->second, 'm', rowsOf(v->type.dtype, rows, columns, BufMode::in));
}

Value* RegionEmitter::bindingElements(const Value* v) {
  auto it = bindingOf_.find(v);
  if (it == bindingOf_.end() || mayTexel_[static_cast<size_t>(it->second)]) return nullptr;
  return parameterFor(false, it->second, false);
}

void RegionEmitter::storeWords(int slot, const Index& offset) {
  const Value* value = region_.yields[static_cast<size_t>(slot)];
  const DType dtype = value->type.dtype;
  const KV low = emitLinear(value, offset);
  const KV high = emitLinear(value, space_.add(offset, IndexSpace::constant(kLanes)));
  Value* words = parameterAs(
      true, slot, 'w', Type::buffer(DType::u32, kLanes, {value->type.elements() / kEight}, BufMode::out));
  const Index index = space_.div(IndexSpace::atLane(offset, 0), kEight);
  kernel_.store(packedWords(kernel_, dtype, beforeRounding(low, dtype), beforeRounding(high, dtype)), words,
                space_.materialize(index));
}

std::optional<KV> RegionEmitter::words(const Value* v, DType narrow, Indices first, Indices second) {
  // Follows v through views and casts, mapping both offsets, until it is a binding.
  Index offsets[2];
  for (;;) {
    const Shape& shape = v->type.shape;
    offsets[0] = space_.linear(first, shape);
    offsets[1] = space_.linear(second, shape);
    // A binding's shape means nothing in memory, so reshapes keep the offset.
    while (!bindingOf_.contains(v) && v->def->code == Opcode::reshape) v = v->def->in(0);
    if (bindingOf_.contains(v)) break;
    const Op& op = *v->def;
    for (int which = 0; which < 2; ++which) {
      Indices& at = which == 0 ? first : second;
      if (!(v->type.shape == shape)) {
        if (!space_.laneDelinearizes(offsets[which], v->type.shape)) return {};
        at = space_.delinear(offsets[which], v->type.shape);
      }
      if (op.code == Opcode::transpose) {
        const std::vector<int64_t> perm = as::transpose(op).perm();
        Indices in(at.size());
        for (size_t axis = 0; axis < perm.size(); ++axis) in[static_cast<size_t>(perm[axis])] = at[axis];
        at = in;
      } else if (op.code == Opcode::slice) {
        const std::vector<int64_t> starts = as::slice(op).starts(), strides = as::slice(op).strides();
        for (size_t axis = 0; axis < starts.size(); ++axis) {
          if (!strides.empty() && strides[axis] != 1) return {};
          at[axis] = space_.add(at[axis], IndexSpace::constant(starts[axis]));
        }
      } else if (op.code == Opcode::unfold) {
        at = unfolded(op, at);
      } else if (op.code != Opcode::cast || op.in(0)->type.dtype != narrow) {
        return {};
      }
    }
    v = op.in(0);
  }
  const int binding = bindingOf_.at(v);
  const Index base = IndexSpace::atLane(offsets[0], 0);
  const bool together = IndexSpace::factor(offsets[0], kLane) == 1 && space_.align(base) % kEight == 0 &&
                        offsets[1] == space_.add(offsets[0], IndexSpace::constant(kLanes));
  if (v->type.dtype != narrow || !together || v->type.elements() % kEight != 0 || byElement_ ||
      mayTexel_[static_cast<size_t>(binding)])
    return {};
  const Type type = Type::buffer(DType::u32, kLanes, {v->type.elements() / kEight}, BufMode::in);
  return kernel_.load(parameterAs(false, binding, 'w', type), space_.materialize(space_.div(base, kEight)));
}

}  // namespace tg
