// SPDX-License-Identifier: Apache-2.0
// Inference of the ops on cooperative matrices. The kernel verifier checks that all invocations of a subgroup reach
// them.

#include <algorithm>

#include "ir/kernel/infer_detail.h"

namespace tg::kernel_inference {
namespace {

/// The matrix type of operand `index`; Kind none if the operand is no matrix.
Type matrixOperand(const Op& op, int index) {
  bool given = index < op.numOperands() && op.operands[index].kind == Operand::Kind::value &&
               op.operands[index].value && op.operands[index].value->type.isCoopmat();
  return given ? op.operands[index].value->type : Type{};
}

bool isAccumulator(const Type& type) {
  return type.isCoopmat() && type.use == MatrixUse::acc && type.dtype == DType::f32;
}

bool isOperandA(const Type& type) {
  return type.isCoopmat() && type.use == MatrixUse::a && isNarrow(type.dtype);
}

Result<Type> declaredMatrix(const Op& op, std::string_view label) {
  if (op.results.size() != 1 || !op.result()->type.isCoopmat())
    return violation(op, label, "the result's type must be given, coopmat<…>");
  return op.result()->type;
}

Result<Type> declaredAccumulator(const Op& op, std::string_view label) {
  TG_TRY(Type type, declaredMatrix(op, label));
  if (!isAccumulator(type)) return violation(op, label, "{} is not an accumulator of f32", type.str());
  return type;
}

/// The operand `%b[…]`, which must be of a buffer of this rank with u32 indices.
Result<const Operand*> placeOf(const Op& op, const Operand* element, int rank, const char* form) {
  if (!element || element->kind != Operand::Kind::element || !element->value->type.isBuffer() ||
      element->value->type.rank() != rank || element->items.size() != static_cast<size_t>(rank))
    return violation(op, "c1", "the place is an element %s[{}] of a buffer of rank {}", form, rank);
  for (const Operand& at : element->items)
    if (!at.isLiteral() && !(at.value && at.value->type == Type::scalar(DType::u32)))
      return violation(op, "c1", "an index is not u32");
  return element;
}

/// Checks that a matrix that starts at an element of a buffer fits the buffer, and the element's indices.
Result<void> place(const Op& op, const Type& matrix, bool columnMajor) {
  TG_TRY(const Operand* element,
         placeOf(op, op.operands.empty() ? nullptr : &op.operands.back(), 2, "row, column"));
  const Type& buffer = element->value->type;
  const bool loads = op.code == Opcode::k_coopmat_load;
  const BufMode way = loads ? BufMode::in : BufMode::out;
  const bool inReach = buffer.mode == BufMode::shared || buffer.mode == BufMode::inout || buffer.mode == way;
  // Shaders may represent a 16-bit parameter in several ways, so that matrices access it as words of u32.
  const bool narrow = isNarrow(matrix.dtype);
  const bool same = buffer.dtype == matrix.dtype && ((loads && narrow) || buffer.lanes == 1) &&
                    (buffer.mode == BufMode::shared || !narrow);
  const bool words = buffer.dtype == DType::u32 && (narrow || loads);
  if (!inReach || (!same && !words)) {
    // Shared buffers have no single 16-bit elements, so that such matrices are stored as u32 words there too.
    const std::string_view bound = narrow ? "u32" : name(matrix.dtype);
    return violation(op, "c2", "%{} is {}, not shared memory of {} or {} of {}", element->value->name,
                     buffer.str(), loads ? name(matrix.dtype) : bound, loads ? "an input" : "a result",
                     bound);
  }
  const int64_t rows = matrix.shape[columnMajor ? 1 : 0], columns = matrix.shape[columnMajor ? 0 : 1];
  const int64_t scalars = matrixScalars(buffer, matrix);  // scalars in one element
  if (buffer.shape[0] == Shape::kDynamic || buffer.shape[1] == Shape::kDynamic || buffer.shape[0] < rows ||
      buffer.shape[1] * scalars < columns || columns % scalars != 0)
    return violation(op, "c3", "{} rows of {} scalars do not lie in {}", rows, columns, buffer.str());
  const int64_t most[] = {buffer.shape[0] - rows, buffer.shape[1] - columns / scalars};
  for (int axis = 0; axis < 2; ++axis) {
    const Operand& at = element->items[axis];
    if (at.isLiteral() && (!at.isInteger || at.integer < 0 || at.integer > most[axis]))
      return violation(op, "c6", "index {} of axis {} is not in 0..{}", at.number(), axis, most[axis]);
  }
  return {};
}

}  // namespace

Result<Types> coopmatSplat(const Op& op) {
  TG_TRY(Type type, declaredAccumulator(op, "c1"));
  TG_TRY(Type value, plainOperand(op, 0));
  if (value != Type::scalar(DType::f32))
    return violation(op, "value", "`value` must be one f32, not {}", value.str());
  return Types{type};
}

Result<Types> coopmatLoad(const Op& op) {
  TG_TRY(Type type, declaredMatrix(op, "c4"));
  if (!isAccumulator(type) && (type.use == MatrixUse::acc || !isNarrow(type.dtype)))
    return violation(op, "c4", "{} is neither an operand A or B of f16 or bf16 nor an accumulator of f32",
                     type.str());
  TG_CHECK(place(op, type, op.flag("column_major")));
  return Types{type};
}

Result<Types> coopmatMma(const Op& op) {
  Type a = matrixOperand(op, 0), b = matrixOperand(op, 1), c = matrixOperand(op, 2);
  bool fits = a.isCoopmat() && a.use == MatrixUse::a && b.isCoopmat() && b.use == MatrixUse::b &&
              isAccumulator(c) && a.dtype == b.dtype && a.shape[0] == c.shape[0] &&
              a.shape[1] == b.shape[0] && b.shape[1] == c.shape[1];
  if (!fits) return violation(op, "c1", "{}, {} and {} do not fit a·b + c", a.str(), b.str(), c.str());
  return Types{c};
}

Result<Types> coopmatIndex(const Op& op) {
  TG_TRY(Type type, declaredAccumulator(op, "c1"));
  return Types{type};
}

Result<Types> coopmatRepeat(const Op& op) {
  TG_TRY(Type type, declaredAccumulator(op, "c4"));
  TG_TRY(const Operand* element, placeOf(op, op.operands.empty() ? nullptr : &op.operands.front(), 1, "at"));
  const Type& buffer = element->value->type;
  const Operand& at = element->items[0];
  const bool inReach = buffer.mode == BufMode::shared || buffer.mode == BufMode::in;
  if (!inReach || buffer.dtype != DType::f32 || buffer.lanes != 1 || buffer.shape[0] == Shape::kDynamic)
    return violation(op, "c2", "%{} is {}, not shared memory or an input of f32 with a fixed extent",
                     element->value->name, buffer.str());
  const int64_t most = buffer.shape[0] - type.shape[op.flag("columns") ? 1 : 0];
  if (most < 0) return violation(op, "c3", "{} has fewer elements than {}", buffer.str(), type.str());
  if (at.isLiteral() && (!at.isInteger || at.integer < 0 || at.integer > most))
    return violation(op, "c6", "index {} is not in 0..{}", at.number(), most);
  return Types{type};
}

/// The type of the operands from `first` on, which must be accumulators of one shape.
static Result<Type> accumulators(const Op& op, int first) {
  if (op.numOperands() <= first) return violation(op, "c1", "there is no matrix operand");
  const Type shape = matrixOperand(op, first);
  for (int i = first; i < op.numOperands(); ++i) {
    const Type type = matrixOperand(op, i);
    if (!isAccumulator(type)) return violation(op, "c1", "{} is not an accumulator of f32", type.str());
    if (type != shape) return violation(op, "c1", "{} differs from {}", type.str(), shape.str());
  }
  return shape;
}

Result<Types> coopmatRowReduce(const Op& op) {
  TG_TRY(Type type, accumulators(op, 0));
  return Types{type};
}

Result<Types> coopmatAnyAbove(const Op& op) {
  const Type limit = operandType(op, op.operands[0]);
  if (!op.operands[0].isLiteral() && limit != Type::scalar(DType::f32))
    return violation(op, "c1", "the limit is {}, not f32", limit.str());
  TG_CHECK(accumulators(op, 1));
  return Types{Type::scalar(DType::i1)};
}

Result<Types> coopmatConvert(const Op& op) {
  const Type from = matrixOperand(op, 0);
  if (!isAccumulator(from) && !isOperandA(from))
    return violation(op, "c1", "{} is neither an accumulator nor an operand A", from.str());
  TG_TRY(Type type, declaredMatrix(op, "c3"));
  if ((isAccumulator(from) ? !isOperandA(type) : !isAccumulator(type)) || type.shape != from.shape)
    return violation(op, "c3", "{} is not an {} of the extents of {}", type.str(),
                     isAccumulator(from) ? "operand A of f16 or bf16" : "accumulator of f32", from.str());
  if (op.flag("truncate") && type.dtype != DType::bf16)
    return violation(op, "c4", "{} is rounded, not truncated", type.str());
  return Types{type};
}

bool takesMatrices(const Op& op) {
  return std::ranges::any_of(op.operands, [](const Operand& operand) {
    return operand.kind == Operand::Kind::value && operand.value && operand.value->type.isCoopmat();
  });
}

/// The shape of the matrices among the operands from `first` to `end`. An error if one of these operands is neither a
/// scalar of `dtype` nor such a matrix of sums of the others' shape.
Result<Type> matrixOf(const Op& op, int first, int end, DType dtype, Type matrix) {
  for (int i = first; i < end; ++i) {
    const Type type = operandType(op, op.operands[i]);
    if (op.operands[i].isLiteral() || type == Type::scalar(dtype)) continue;
    const bool fits = type.isCoopmat() && type.use == MatrixUse::acc && type.dtype == dtype;
    if (!fits || (matrix.isCoopmat() && type.shape != matrix.shape))
      return violation(op, "c1",
                       "expected {0} or a matrix coopmat<{0}, MxN, acc> of the others' shape, not {1}",
                       Type::scalar(dtype).str(), type.str());
    matrix = type;
  }
  return matrix;
}

Result<Types> coopmatLanes(const Op& op) {
  const KernelSemantics& row = semantics(op.code);
  const bool selects = op.code == Opcode::k_select, bits = row.types == LaneTypes::bits;
  const bool suits = selects || bits || row.types == LaneTypes::number || row.types == LaneTypes::real;
  const bool known = selects || row.gives == LaneGives::same || row.gives == LaneGives::condition;
  if (!suits || !known || op.numOperands() != op.info().slots.size())
    return violation(op, "c1", "{} takes no matrices", op.info().name);
  const DType dtype = bits ? DType::i1 : DType::f32;
  TG_TRY(Type matrix, matrixOf(op, 0, selects ? 1 : 0, DType::i1, {}));
  TG_TRY(matrix, matrixOf(op, selects ? 1 : 0, op.numOperands(), dtype, matrix));
  matrix.dtype = selects ? dtype : row.given(dtype);
  return Types{matrix};
}

Result<Types> coopmatStore(const Op& op) {
  const Type type = matrixOperand(op, 0);
  if (!isAccumulator(type) && !isOperandA(type))
    return violation(op, "c4", "{} is neither an accumulator nor an operand A", type.str());
  TG_CHECK(place(op, type, false));
  return Types{};
}

}  // namespace tg::kernel_inference
