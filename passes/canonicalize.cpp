// SPDX-License-Identifier: Apache-2.0
// canonicalize: folds constants, identities and views.
//
//   %k = tg.constant 2.0                  %k = tg.constant 2.0
//   %r = tg.mul %k, %k             →      %r = tg.constant 4.0
//   %m = tg.less_equal %column, %row →    %m = tg.causal_mask          (of iotas, row moved by columns - rows)
//   %y = tg.reshape %x {shape = [2]}      (uses of %y read %x, of shape 2)
//
// Folds: elementwise ops over constants (f32 results rounded once, i32 wrapped); x+0, x-0, x·1, x/1; -(-x); dropout of
// p = 0; views, means and extrema of constants; views and casts that change nothing; a transpose of a transpose, a reshape
// of a reshape; reductions over axes of extent 1; a transpose or a reduction of what elementwise ops compute from
// transposes, which then read the values as they lie in memory. Not x·0, which is NaN for an infinite x, and nothing through
// stop_gradient, which append-grad needs.
// Requires: stage(tensor).
// Ensures: the same values, up to the sign of zero in x+0. A function with tg.grad stays as it is.
// Where: before cse, which then finds more equal ops; fuse runs it.

#include "ir/infer.h"
#include "ir/op_view.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace tg {
namespace {

/// The literal of a constant whose elements are all equal; null for other values, and for a seed of gradients, which
/// mixed-precision may still replace.
const Operand* splat(const Value* value) {
  if (!value->def || value->def->code != Opcode::constant || as::constant(*value->def).seed()) return nullptr;
  const Operand& literal = value->def->operands[0];
  return literal.isLiteral() ? &literal : nullptr;
}
bool isSplat(const Value* value, double number) {
  const Operand* literal = splat(value);
  return literal && literal->number() == number;
}

void becomeConstant(Op& op, double value) {
  const DType dtype = op.result()->type.dtype;
  bool real = isFloat(dtype);
  op.code = Opcode::constant;
  op.attrs.clear();
  op.operands = {real ? Operand::literal(roundedTo(dtype, value))
                      : Operand::literal(static_cast<int64_t>(value))};
}

int64_t wrapped(Scalar scalar, int64_t x, int64_t y) {
  uint32_t a = static_cast<uint32_t>(x), b = static_cast<uint32_t>(y);
  uint32_t r = scalar == Scalar::add ? a + b : scalar == Scalar::sub ? a - b : a * b;
  return static_cast<int32_t>(r);
}

/// Turns an elementwise op over constants into a constant.
bool foldConstants(Op& op) {
  Scalar scalar = op.info().scalar;
  const Type& type = op.result()->type;
  if (scalar == Scalar::none || scalar == Scalar::stop_gradient) return false;
  if (type.dtype != DType::f32 && type.dtype != DType::i32) return false;
  const Operand* literals[3] = {};
  for (int i = 0; i < op.numOperands(); ++i)
    if (!(literals[i] = splat(op.in(i)))) return false;
  bool integer = type.dtype == DType::i32;
  bool wraps = scalar == Scalar::add || scalar == Scalar::sub || scalar == Scalar::mul;
  if (integer && !wraps) return false;
  if (integer) {
    becomeConstant(op, static_cast<double>(wrapped(scalar, literals[0]->integer, literals[1]->integer)));
    return true;
  }
  auto number = [&](int i) { return literals[i] ? literals[i]->number() : 0; };
  becomeConstant(op, evalScalar(scalar, number(0), number(1), number(2)));
  return true;
}

/// Turns a cast of a constant between a 16-bit type and another float type into a constant.
bool foldNarrowCast(Op& op) {
  if (op.code != Opcode::cast || !splat(op.in(0))) return false;
  const DType from = op.in(0)->type.dtype, to = op.result()->type.dtype;
  if (!isFloat(from) || !isFloat(to) || !(isNarrow(from) || isNarrow(to))) return false;
  becomeConstant(op, splat(op.in(0))->number());
  return true;
}

/// The 16-bit value below a widening cast, if this cast narrows it back to the same type.
Value* foldWidened(const Op& op) {
  const Op* inner = op.code == Opcode::cast ? op.in(0)->def : nullptr;
  if (!inner || inner->code != Opcode::cast || !isNarrow(op.result()->type.dtype)) return nullptr;
  const bool exact = inner->result()->type.dtype == computeType(op.result()->type.dtype);
  return exact && inner->in(0)->type == op.result()->type ? inner->in(0) : nullptr;
}

/// Turns a view, mean or extremum of equal elements into a constant. A sum only of zeros, because other sums round.
bool foldSplat(Op& op) {
  switch (op.code) {
  case Opcode::reshape:
  case Opcode::transpose:
  case Opcode::broadcast_to:
  case Opcode::slice:
  case Opcode::flip:
  case Opcode::mean:
  case Opcode::max_reduce:
  case Opcode::min_reduce: break;
  case Opcode::sum:
    if (isSplat(op.in(0), 0)) break;
    return false;
  default: return false;
  }
  const Operand* literal = splat(op.in(0));
  if (!literal) return false;
  Operand value = *literal;
  op.code = Opcode::constant;
  op.attrs.clear();
  op.operands = {value};
  return true;
}

/// Whether each element of a value is its index along the axis that is `fromEnd` axes before the last.
bool isPlace(const Value* value, int fromEnd) {
  return value->def && value->def->code == Opcode::iota && value->type.rank() >= 2 &&
         as::iota(*value->def).axis() == value->type.rank() - 1 - fromEnd;
}

/// Turns column <= row + columns - rows, with iotas of the matrix's shape as column and row, into tg.causal_mask, which
/// kernels know.
bool foldCausalMask(Op& op) {
  if (op.code != Opcode::less_equal || op.result()->type.rank() < 2) return false;
  const Value *column = as::less_equal(op).lhs(), *row = as::less_equal(op).rhs();
  const auto matrix = [](const Value* value) {
    const Shape& shape = value->type.shape;
    return std::pair(shape[shape.rank() - 2], shape.back());
  };
  const auto [rows, columns] = matrix(op.result());
  if (columns != rows) {
    const Op* moved = row->def;
    if (!moved || moved->code != Opcode::add) return false;
    if (!isSplat(as::add(*moved).rhs(), static_cast<double>(columns - rows))) return false;
    row = as::add(*moved).lhs();
  }
  if (!isPlace(column, 0) || !isPlace(row, 1)) return false;
  if (matrix(column) != matrix(op.result()) || matrix(row) != matrix(op.result())) return false;
  op.code = Opcode::causal_mask;
  op.attrs.clear();
  op.operands.clear();
  return true;
}

/// Drops zeros from a sum of squares; with one rank-0 operand left it becomes tg.square.
bool foldSumOfSquares(Op& op) {
  if (op.code != Opcode::sum_of_squares) return false;
  OperandList kept;
  for (const Operand& operand : op.operands)
    if (!isSplat(operand.value, 0)) kept.push_back(Operand::of(operand.value));
  if (kept.empty()) {
    becomeConstant(op, 0);
    return true;
  }
  op.operands = std::move(kept);
  if (op.operands.size() == 1 && op.operands[0].value->type.rank() == 0) op.code = Opcode::square;
  return false;
}

bool sameType(const Op& op, const Value* value) { return value->type == op.result()->type; }

/// The operand that an op equals by an arithmetic identity, or null.
Value* foldIdentity(const Op& op) {
  auto neutral = [&](int kept, double number) {
    return isSplat(op.in(1 - kept), number) && sameType(op, op.in(kept)) ? op.in(kept) : nullptr;
  };
  switch (op.code) {
  case Opcode::add:
    if (Value* x = neutral(0, 0)) return x;
    return neutral(1, 0);
  case Opcode::mul:
    if (Value* x = neutral(0, 1)) return x;
    return neutral(1, 1);
  case Opcode::dropout: return as::dropout(op).p() == 0 ? op.in(0) : nullptr;
  case Opcode::sub: return neutral(0, 0);
  case Opcode::div: return neutral(0, 1);
  case Opcode::neg: {
    const Op* inner = op.in(0)->def;
    return inner && inner->code == Opcode::neg ? inner->in(0) : nullptr;
  }
  default: return nullptr;
  }
}

/// A transpose of a transpose becomes one transpose; a reshape of a reshape reads the inner operand.
void mergeViews(Op& op) {
  const Op* inner = op.in(0)->def;
  if (!inner || inner->code != op.code) return;
  if (op.code == Opcode::reshape) op.operands[0] = Operand::of(inner->in(0));
  if (op.code == Opcode::transpose) {
    const std::vector<int64_t> first = as::transpose(*inner).perm();
    std::vector<int64_t> perm;
    for (const int64_t axis : as::transpose(op).perm()) perm.push_back(first[axis]);
    op.setAttr("perm", Attr::ints(perm));
    op.operands[0] = Operand::of(inner->in(0));
  }
}

/// The operand of a view, cast or reduction that changes nothing, or null.
Value* foldView(Op& op) {
  if (op.code == Opcode::reshape || op.code == Opcode::transpose) mergeViews(op);
  if (op.numOperands() != 1 || !sameType(op, op.in(0))) return nullptr;
  switch (op.code) {
  case Opcode::reshape:
  case Opcode::broadcast_to:
  case Opcode::cast:
  case Opcode::slice:
  case Opcode::pad:
  case Opcode::concat:
  case Opcode::sum:
  case Opcode::mean:
  case Opcode::max_reduce:
  case Opcode::min_reduce: return op.in(0);
  case Opcode::transpose: return std::ranges::is_sorted(as::transpose(op).perm()) ? op.in(0) : nullptr;
  default: return nullptr;
  }
}

bool isReduction(const Op& op) {
  return op.code == Opcode::sum || op.code == Opcode::mean || op.code == Opcode::max_reduce ||
         op.code == Opcode::min_reduce;
}

/// Turns a reduction over axes of extent 1 into a reshape.
void reductionToReshape(Op& op) {
  if (!isReduction(op)) return;
  if (op.in(0)->type.elements() != op.result()->type.elements() || sameType(op, op.in(0))) return;
  const Shape& shape = op.result()->type.shape;
  op.code = Opcode::reshape;
  op.attrs.clear();
  op.setAttr("shape", Attr::ints({shape.begin(), shape.end()}));
}

/// Whether elementwise ops compute a value from transposes and constants, so that it equals one transpose of what they
/// compute from the transposes' operands. All transposes must have one permutation, which `perm` becomes, and the value's
/// `shape`; the ops must have no other uses and be at most eight deep.
bool isTransposed(const Value* value, const Shape& shape, std::vector<int64_t>& perm, int depth = 0) {
  if (value->type.rank() == 0 || splat(value)) return true;
  const Op* def = value->def;
  if (!def || value->type.shape != shape) return false;
  if (def->code == Opcode::transpose) {
    const std::vector<int64_t> own = as::transpose(*def).perm();
    if (perm.empty()) perm = own;
    return perm == own;
  }
  const Scalar scalar = def->info().scalar;
  if (depth == 8 || scalar == Scalar::none || scalar == Scalar::stop_gradient || !value->uses.hasOne())
    return false;
  for (int i = 0; i < def->numOperands(); ++i)
    if (!isTransposed(def->in(i), shape, perm, depth + 1)) return false;
  return true;
}

/// What the elementwise ops of such a value compute from the transposes' operands.
Value* withoutTransposes(Value* value, Builder& builder) {
  if (value->type.rank() == 0) return value;
  Op* def = value->def;
  builder.setLoc(def->loc).setHint(value->name);
  if (const Operand* literal = splat(value))
    return builder.create(Opcode::constant, {*literal}, {}, {Type::tensor(value->type.dtype, {})})->result();
  if (def->code == Opcode::transpose) return def->in(0);
  OperandList operands;
  for (int i = 0; i < def->numOperands(); ++i)
    operands.push_back(Operand::of(withoutTransposes(def->in(i), builder)));
  builder.setLoc(def->loc).setHint(value->name);
  return builder.create(def->code, std::move(operands), def->attrs)->result();
}

/// A transpose that undoes those below the elementwise ops is replaced by the value returned. A reduction of such a value
/// reduces the untransposed one instead, over the same axes, if the axes that it keeps are in the same order there.
Value* skipTransposes(Op& op, Builder& builder) {
  if (op.code != Opcode::transpose && !isReduction(op)) return nullptr;
  std::vector<int64_t> perm;
  if (!isTransposed(op.in(0), op.in(0)->type.shape, perm) || perm.empty()) return nullptr;
  builder.setBefore(&op);
  if (op.code == Opcode::transpose) {
    for (int i = 0; const int64_t axis : as::transpose(op).perm())
      if (perm[axis] != i++) return nullptr;
    return withoutTransposes(op.in(0), builder);
  }
  std::vector<int64_t> reduced = reducedAxes(op), before;
  std::ranges::sort(reduced);
  int64_t last = -1;
  for (int axis = 0; const int64_t from : perm) {
    if (contains(reduced, axis++))
      before.push_back(from);
    else if (std::exchange(last, from) > from)
      return nullptr;
  }
  std::ranges::sort(before);
  const bool keepsAxes = op.result()->type.rank() == op.in(0)->type.rank();  // with extent 1
  if (keepsAxes && before != reduced) return nullptr;
  op.operands[0] = Operand::of(withoutTransposes(op.in(0), builder));
  op.setAttr("axes", Attr::ints(before));
  return nullptr;
}

}  // namespace

Result<void> run_canonicalize(Module& module, const NoOptions&, const PassContext&) {
  for (Item* func : module.all(ItemKind::func)) {
    Builder builder(&module, func);
    replaceOps(*func, [&](Op& op) -> Value* {
      if (op.results.size() != 1 || op.operands.empty() || op.operands[0].kind != Operand::Kind::value)
        return nullptr;
      if (foldSumOfSquares(op) || foldConstants(op) || foldNarrowCast(op) || foldSplat(op) ||
          foldCausalMask(op))
        return nullptr;
      if (Value* other = foldWidened(op)) return other;
      if (Value* other = foldIdentity(op)) return other;
      if (Value* other = skipTransposes(op, builder)) return other;
      reductionToReshape(op);
      return foldView(op);
    });
  }
  return {};
}

}  // namespace tg
