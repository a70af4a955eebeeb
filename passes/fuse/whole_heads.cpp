// SPDX-License-Identifier: Apache-2.0
#include "ir/divide.h"
#include "passes/fuse/split_parts.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "codegen/schedule.h"
#include "ir/attention_parts.h"
#include "ir/needs.h"
#include "ir/op_view.h"
#include "passes/fuse/cost.h"
#include "passes/fuse/inline_ops.h"

namespace tg::fuse {
namespace {

/// The width to which heads of so many columns are padded. Matrix units take multiples of 16. In f32, kernels in shared
/// memory have tiles of results for all invocations if the width is a power of two: streaming 16 heads of 4096 rows, a step
/// took 15.7, 21.1 and 42.2 ms on an H200 with 48, 40 and 56 columns, 10.3 with 64.
int64_t wholeWidth(const Op& op, int64_t columns) {
  if (as::attention(op).precision() != "f32") return alignTo(columns, kMatrixSide);
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max(columns, kMatrixSide))));
}

/// Whether an operand or result has a row of a head's elements for each position; statistics of rows have one number
/// instead. Not to be asked of a bias or a keep, whose rows are those of scores.
bool hasHeads(const Value& value, const Op& attention) {
  return value.type.rank() == attention.in(0)->type.rank();
}

/// The value that an operand is in memory: before it was widened.
Value* narrowOf(Value* operand) {
  return operand->def && isWidening(*operand->def) ? operand->def->in(0) : operand;
}

/// Stores a value with zeros behind its rows, up to so many columns; in 16 bits if it was widened from them.
Value* filled(Builder& builder, Value* value, int64_t columns, const StoreView& store) {
  const Shape& shape = value->type.shape;
  std::vector<int64_t> low(static_cast<size_t>(shape.rank()), 0), high = low;
  high.back() = columns - shape.back();
  if (high.back() == 0) return value;
  Value* narrow = narrowOf(value);
  Value* source = narrow;
  while (source->def && movesElements(*source->def)) source = source->def->in(0);
  Value* view = builder.op(Opcode::pad, {narrow}, {{"low", Attr::ints(low)}, {"high", Attr::ints(high)}});
  return builder.cast(store(source, *view), value->type.dtype);
}

/// The first columns of a value, as many as `like` has.
Value* cut(Builder& builder, Value* value, const Value& like) {
  if (value->type.shape == like.type.shape) return value;
  const Shape& shape = like.type.shape;
  return builder.op(Opcode::slice, {value},
                    {{"starts", Attr::ints(std::vector<int64_t>(static_cast<size_t>(shape.rank()), 0))},
                     {"limits", Attr::ints({shape.begin(), shape.end()})}});
}

/// The bytes that an element of a result takes in memory: fewer if all readers round it.
int64_t storedSize(const Value& value) {
  int64_t size = value.uses.empty() ? byteSize(value.type.dtype) : 0;
  for (const Use& use : value.uses) {
    const Op& reader = *use.user();
    size = std::max<int64_t>(size,
                             byteSize((reader.code == Opcode::cast ? *reader.result() : value).type.dtype));
  }
  return size;
}

/// Whether the padded operands and results fit a binding of the target. split-rows has cut those without padding.
bool fitsFilled(const Op& op, const Target& target) {
  auto fits = [&](const Value& value, int64_t size) {
    const int64_t width = value.type.shape.back();
    return value.type.elements() / width * wholeWidth(op, width) * size <= mostBytes(target);
  };
  for (int i = 0; i < placeOfMore(op) && i < op.numOperands(); ++i) {
    Value* value = op.in(i);
    if (hasHeads(*value, op) && !fits(*value, byteSize(narrowOf(value)->type.dtype))) return false;
  }
  return std::ranges::all_of(op.results, [&](const auto& result) {
    return !hasHeads(*result, op) || fits(*result, storedSize(*result));
  });
}

}  // namespace

bool wantsWholeHeads(const Op& op, const Target& target) {
  if (op.info().fusion != table::Fusion::attention || op.code == Opcode::attention_grad) return false;
  const as::attention attention(op);
  const int64_t width = attention.q()->type.shape.back(), valueWidth = attention.v()->type.shape.back();
  const int64_t filled = wholeWidth(op, std::max(width, valueWidth));
  if (width == wholeWidth(op, width) && valueWidth == wholeWidth(op, valueWidth)) return false;
  if (!fitsFilled(op, target)) return false;
  auto isConstant = [](const Operand& operand) {
    const Value* source = operand.value;
    while (source->def && (movesElements(*source->def) || isWidening(*source->def)))
      source = source->def->in(0);
    return source->def && isInline(*source->def);
  };
  const auto more = op.operands.begin() + std::min(placeOfMore(op), op.numOperands());
  if (std::any_of(op.operands.begin(), more, isConstant)) return false;
  if (attention.precision() == "f32")
    return target.matmul == "shared" && filled <= kWidestFilled && streamsScores(op, target);
  return isNarrow(dtypeNamed(attention.precision()).value_or(DType::f32)) &&
         multipliesFragments(op, target, filled);
}

std::vector<Value*> wholeHeads(Builder& builder, const Op& op, const StoreView& store) {
  const as::attention attention(op);
  OperandList operands;
  for (int i = 0; i < op.numOperands(); ++i) {
    Value* value = op.in(i);
    const bool fills = i < placeOfMore(op) && hasHeads(*value, op);
    operands.push_back(
        Operand::of(fills ? filled(builder, value, wholeWidth(op, value->type.shape.back()), store) : value));
  }
  AttrList attrs = op.attrs;
  const double scale = attention.scale();
  tg::set(
      attrs, "scale",
      Attr::of(scale != 0 ? scale : 1.0 / std::sqrt(static_cast<double>(attention.q()->type.shape.back()))));
  std::vector<Type> types;
  for (const auto& result : op.results) {
    Shape shape = result->type.shape;
    if (hasHeads(*result, op)) shape[shape.rank() - 1] = wholeWidth(op, shape.back());
    types.push_back(Type::tensor(result->type.dtype, shape));
  }
  const Op* made = builder.create(op.code, operands, attrs, types);
  std::vector<Value*> results;
  for (int i = 0; i < static_cast<int>(op.results.size()); ++i) {
    Value* result = made->result(i);
    // A cast comes before the slice, so that it is part of the attention's kernel.
    std::vector<Op*> casts;
    for (const Use& use : op.result(i)->uses)
      if (use.user()->code == Opcode::cast) casts.push_back(use.user());
    for (Op* cast : casts) {
      Value* rounded = builder.cast(result, cast->result()->type.dtype);
      cast->result()->uses.replaceAll(cut(builder, rounded, *cast->result()));
    }
    results.push_back(cut(builder, result, *op.result(i)));
  }
  return results;
}

}  // namespace tg::fuse
