// SPDX-License-Identifier: Apache-2.0
// Inference of the kernel ops on memory: modes of buffers, indices, element types.

#include <cstdint>

#include "ir/kernel/infer_detail.h"
#include "ir/text.h"

namespace tg::kernel_inference {
namespace {

bool mayLoad(BufMode mode) { return mode != BufMode::out && mode != BufMode::accum; }
bool mayStore(BufMode mode) { return mode != BufMode::in && mode != BufMode::accum; }
bool mayAccumulate(BufMode mode) { return mode != BufMode::in && mode != BufMode::out; }
bool mayExchange(BufMode mode) {
  return mode == BufMode::inout || mode == BufMode::tape || mode == BufMode::shared;
}
bool mayAdd(BufMode mode) { return mode == BufMode::accum || mayExchange(mode); }

/// Checks the indices of an element: one for each of the first `rank` axes of a buffer whose mode passes `modes`.
/// `rangeLabel` names the constraint that a constant index outside its axis violates.
Result<void> indices(const Op& op, const Operand& place, int rank, bool (*modes)(BufMode),
                     std::string_view rangeLabel) {
  const Type& buffer = place.value->type;
  int given = static_cast<int>(place.items.size());
  if (given != rank)
    return violation(op, "c1", "%{} has {}, but {}", place.value->name, countText(rank, "axis", "axes"),
                     countText(given, "index is given", "indices are given"));
  if (!modes(buffer.mode) || (buffer.texel && modes != mayLoad))
    return violation(op, "c2", "%{} is `{}{}`", place.value->name, name(buffer.mode),
                     buffer.texel ? ", texel" : "");
  for (int axis = 0; axis < given; ++axis) {
    const Operand& at = place.items[axis];
    if (!at.isLiteral()) {
      Type type = at.kind == Operand::Kind::value ? at.value->type : Type{};
      if (type != Type::scalar(DType::u32) && type != Type::scalar(DType::i32))
        return violation(op, "c1", "index {} must be u32 or i32, not {}", axis, type.str());
      continue;
    }
    const int64_t extent = buffer.shape[axis];
    const int64_t last = extent == Shape::kDynamic ? UINT32_MAX : extent - 1;
    if (at.isInteger && at.integer < 0 && extent == Shape::kDynamic)
      return violation(op, rangeLabel, "index {} of axis {} is negative", at.number(), axis);
    if (!at.isInteger || at.integer < 0 || at.integer > last)
      return violation(op, rangeLabel, "index {} of axis {} is not in 0..{}", at.number(), axis, last);
  }
  return {};
}

/// The type of the element that operand `index` names.
Result<Type> element(const Op& op, int index, bool (*modes)(BufMode), std::string_view rangeLabel) {
  if (index < 0 || index >= op.numOperands() || op.operands[index].kind != Operand::Kind::element ||
      !op.operands[index].value->type.isBuffer())
    return violation(op, "c1", "an element of a buffer is missing");
  const Operand& place = op.operands[index];
  TG_CHECK(indices(op, place, place.value->type.rank(), modes, rangeLabel));
  return elementType(place.value->type);
}

/// An op that writes operand `value`, of the element's type or a literal, to the element in the last operand.
Result<Types> storing(const Op& op, bool (*modes)(BufMode), int value = 0) {
  TG_TRY(Type wanted, element(op, op.numOperands() - 1, modes, "c4"));
  TG_TRY(Type type, plainOperand(op, value));
  const bool literal = op.operands[value].isLiteral();
  if (type != wanted && !(literal && type.dtype == wanted.dtype))
    return violation(op, "c3", "the value is {}, the element {}", type.str(), wanted.str());
  return Types{};
}

/// An atomic op, on one 32-bit word; it has the old value as a result if the op declares one.
Result<Types> atomicAt(const Op& op, int value) {
  auto* modes = op.code == Opcode::k_atomic_add ? mayAdd : mayExchange;
  TG_TRY(Type wanted, element(op, op.numOperands() - 1, modes, "c4"));
  const Type& buffer = op.operands.back().value->type;
  if (buffer.lanes != 1 || isNarrow(buffer.dtype))
    return violation(op, "c3", "an element of {} is not one 32-bit scalar", buffer.str());
  TG_CHECK(storing(op, modes, value));
  return op.results.empty() ? Types{} : Types{wanted};
}

/// Checks the place of an exact sum: an element of an i32 buffer without the last axis, which has kExactWords words.
Result<void> exactElement(const Op& op, int index, bool (*modes)(BufMode), std::string_view rangeLabel) {
  bool given = index < op.numOperands() && op.operands[index].kind == Operand::Kind::element &&
               op.operands[index].value->type.isBuffer();
  const Type* buffer = given ? &op.operands[index].value->type : nullptr;
  if (!buffer || buffer->rank() < 2 || buffer->shape.back() != kExactWords)
    return violation(op, "c1", "an exact sum is the last axis of a buffer, of {} words", kExactWords);
  if (buffer->dtype != DType::i32 || buffer->lanes != 1)
    return violation(op, "c2", "the words are {}, not i32", elementType(*buffer).str());
  return indices(op, op.operands[index], buffer->rank() - 1, modes, rangeLabel);
}

Result<Types> exactStoring(const Op& op, bool (*modes)(BufMode)) {
  TG_CHECK(exactElement(op, 1, modes, "c4"));
  const Operand& value = op.operands[0];
  if (!value.isLiteral() && !(value.value && value.value->type == Type::scalar(DType::f32)))
    return violation(op, "c3", "the value must be one f32");
  return Types{};
}

}  // namespace

Result<Types> load(const Op& op) {
  TG_TRY(Type type, element(op, 0, mayLoad, "c3"));
  return Types{type};
}

Result<Types> store(const Op& op) { return storing(op, mayStore); }

Result<Types> atomic(const Op& op) { return atomicAt(op, 0); }

Result<Types> compareExchange(const Op& op) {
  TG_TRY(Types types, atomicAt(op, 1));
  TG_TRY(Type expected, plainOperand(op, 0));
  Type wanted = elementType(op.operands.back().value->type);
  if (expected != wanted)
    return violation(op, "c3", "`expected` is {}, the element {}", expected.str(), wanted.str());
  return types;
}

Result<Types> accumulate(const Op& op) {
  TG_CHECK(storing(op, mayAccumulate));
  const Type& buffer = op.operands.back().value->type;
  if (isNarrow(buffer.dtype))
    return violation(op, "c3", "{} would lose what is added; sums are f32", buffer.str());
  return Types{};
}

Result<Types> exactAdd(const Op& op) { return exactStoring(op, mayAdd); }

Result<Types> exactStore(const Op& op) { return exactStoring(op, mayStore); }

Result<Types> exactLoad(const Op& op) {
  TG_CHECK(exactElement(op, 0, mayLoad, "c3"));
  return Types{Type::scalar(DType::f32)};
}

Result<Types> memory(const Op& op, BufMode mode) {
  bool fits = op.results.size() == 1 && op.result()->type.isBuffer() && op.result()->type.mode == mode;
  if (fits)
    for (int64_t extent : op.result()->type.shape) fits = fits && extent > 0;
  if (!fits) return violation(op, "c1", "the type must be buf<…, {}> with static extents", name(mode));
  return Types{op.result()->type};
}

}  // namespace tg::kernel_inference
