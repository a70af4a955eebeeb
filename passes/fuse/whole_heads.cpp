// SPDX-License-Identifier: Apache-2.0
#include "passes/fuse/whole_heads.h"

#include <cmath>

#include "codegen/schedule.h"
#include "ir/op_view.h"
#include "passes/fuse/cost.h"
#include "passes/fuse/inline_ops.h"

namespace tg::fuse {
namespace {

int64_t whole(int64_t columns) { return (columns + kMatrixSide - 1) / kMatrixSide * kMatrixSide; }

/// Whether a value has rows of a head's elements, as statistics of rows have not.
bool hasHeads(const Value& value, const Op& attention) {
  return value.type.rank() == attention.in(0)->type.rank();
}

/// The value with rows of whole matrices, of 16 bits where it was widened from them.
Value* filled(Builder& builder, Value* value,
              const std::function<Value*(Value* source, const Value& view)>& store) {
  const Shape& shape = value->type.shape;
  std::vector<int64_t> low(static_cast<size_t>(shape.rank()), 0), high = low;
  high.back() = whole(shape.back()) - shape.back();
  if (high.back() == 0) return value;
  Value* narrow = value->def && isWidening(*value->def) ? value->def->in(0) : value;
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

}  // namespace

bool wantsWholeHeads(const Op& op, const Target& target) {
  if (op.info().fusion != table::Fusion::attention || op.code == Opcode::attention_grad) return false;
  const as::attention attention(op);
  const int64_t width = attention.q()->type.shape.back(), valueWidth = attention.v()->type.shape.back();
  if (width == whole(width) && valueWidth == whole(valueWidth)) return false;
  auto isConstant = [](const Operand& operand) {
    const Value* source = operand.value;
    while (source->def && (movesElements(*source->def) || isWidening(*source->def)))
      source = source->def->in(0);
    return source->def && isInline(*source->def);
  };
  return isNarrow(dtypeNamed(attention.precision()).value_or(DType::f32)) &&
         multipliesFragments(op, target, whole(std::max(width, valueWidth))) &&
         std::none_of(op.operands.begin(), op.operands.end(), isConstant);
}

std::vector<Value*> wholeHeads(Builder& builder, const Op& op,
                               const std::function<Value*(Value* source, const Value& view)>& store) {
  const as::attention attention(op);
  OperandList operands;
  for (const Operand& operand : op.operands) {
    Value* value = operand.value;
    operands.push_back(Operand::of(hasHeads(*value, op) ? filled(builder, value, store) : value));
  }
  AttrList attrs = op.attrs;
  const double scale = attention.scale();
  tg::set(
      attrs, "scale",
      Attr::of(scale != 0 ? scale : 1.0 / std::sqrt(static_cast<double>(attention.q()->type.shape.back()))));
  std::vector<Type> types;
  for (const auto& result : op.results) {
    Shape shape = result->type.shape;
    if (hasHeads(*result, op)) shape[shape.rank() - 1] = whole(shape.back());
    types.push_back(Type::tensor(result->type.dtype, shape));
  }
  const Op* made = builder.create(op.code, operands, attrs, types);
  std::vector<Value*> results;
  for (int i = 0; i < static_cast<int>(op.results.size()); ++i) {
    Value* result = made->result(i);
    // What rounds the result does so in its kernel, before it is cut.
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
