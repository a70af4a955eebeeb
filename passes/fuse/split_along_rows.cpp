// SPDX-License-Identifier: Apache-2.0
// split-rows: ops along rows, and reductions.
#include <algorithm>
#include <string>
#include <utility>

#include "ir/access.h"
#include "ir/cross_entropy.h"
#include "ir/infer.h"
#include "ir/op_view.h"
#include "passes/fuse/row_splitter.h"

namespace tg::fuse {

/// A reshape keeps pieces that end with a row of its result.
bool RowSplitter::reshape(const Op& op) {
  const RowPieces* pieces = piecesOf(op.in(0));
  const Shape &from = op.in(0)->type.shape, &to = op.result()->type.shape;
  if (!pieces || to.rank() == 0) return false;
  RowPieces made{{}, {}, pieces->streams};
  for (int64_t bound : pieces->bounds) {
    if (bound * from.back() % to.back() != 0) return false;
    made.bounds.push_back(bound * from.back() / to.back());
  }
  for (size_t i = 0; i < pieces->values.size(); ++i)
    made.values.push_back(out_.inPiece(i, made.streams, [&] {
      return build().reshape(pieces->values[i], {made.bounds[i + 1] - made.bounds[i], to.back()});
    }));
  out_.set(op.result(), std::move(made));
  return true;
}

/// A concatenation of whole rows that is too large, such as an earlier run of this pass joined for the host: its operands are
/// the pieces.
bool RowSplitter::concat(const Op& op) {
  const Type& type = op.result()->type;
  const auto axis = normalAxis(as::concat(op).axis(), type.shape.rank());
  if (type.bytes() <= limit_ || axis != entryAxis(type.shape) || axis == type.shape.rank() - 1) return false;
  RowPieces joined{{0}, {}, true};
  for (Value* part : as::concat(op).xs()) {
    const int64_t start = joined.bounds.back();
    if (const RowPieces* pieces = piecesOf(part)) {
      joined.values.insert(joined.values.end(), pieces->values.begin(), pieces->values.end());
      for (size_t i = 1; i < pieces->bounds.size(); ++i) joined.bounds.push_back(start + pieces->bounds[i]);
    } else {
      if (part->type.bytes() > limit_) return false;
      const int64_t rows = rowCount(part->type);
      joined.values.push_back(build().reshape(part, {rows, type.shape.back()}));
      joined.bounds.push_back(start + rows);
    }
  }
  if (joined.values.size() > kMostRowPieces) return false;
  out_.set(op.result(), std::move(joined));
  return true;
}

/// Whether a row of a value of `shape` depends on one row of the operand: the same, one number, or a row for all.
bool RowSplitter::hasRows(const Value* value, const Shape& shape) const {
  const Shape& own = value->type.shape;
  if (own == shape) return true;
  if (piecesOf(value)) return false;
  if (own.rank() == 0 || own.elements() == own.back()) return true;
  Shape column = shape;
  column[shape.rank() - 1] = 1;
  return own == column;
}

Value* RowSplitter::operandRows(Value* value, const Shape& shape, int64_t from, int64_t to) {
  const Shape& own = value->type.shape;
  if (own.rank() == 0 || own.rank() == 1) return value;
  const bool broadcast = own.elements() == own.back() && shape.elements() != shape.back();
  return broadcast ? build().reshape(value, {own.back()}) : out_.rows(value, from, to);
}

/// Copies an op with other operands and attributes. A cast's type follows from no operand: it has the shape of its own.
Value* RowSplitter::clone(const Op& op, const std::vector<Value*>& operands, AttrList attrs) {
  std::vector<Type> types;
  if (op.code == Opcode::cast)
    types.push_back(Type::tensor(op.result()->type.dtype, operands[0]->type.shape));
  build().setHint(op.result()->name);
  Value* made = build().op(op.code, operands, std::move(attrs), types);
  build().setHint("");
  return made;
}

/// The op that joins the results of a reduction over two parts.
Opcode RowSplitter::joining(Opcode reduction) {
  return reduction == Opcode::max_reduce   ? Opcode::max
         : reduction == Opcode::min_reduce ? Opcode::min
                                           : Opcode::add;
}

/// The result of a tg.mean, of the sum over the same elements.
Value* RowSplitter::meanOf(const Op& mean, Value* sum) {
  const auto count = static_cast<double>(mean.in(0)->type.elements() / mean.result()->type.elements());
  return build().binary(Opcode::mul, sum, build().constant(1 / count, Type::tensor(sum->type.dtype, {})));
}

/// Splits an op whose rows follow from the rows of its operands. Results with one number for each row are joined. Operands
/// from `lead` on have one number for each row, if they have any rows.
bool RowSplitter::byRows(const Op& op, int lead, const RowBounds& bounds, bool streams) {
  const Shape& shape = op.result()->type.shape;
  std::vector<RowPieces> made(op.results.size(), RowPieces{bounds, {}, streams});
  AttrList attrs = op.attrs;
  if (find(attrs, "axis")) set(attrs, "axis", Attr::of(-1));  // it was the last axis
  for (size_t i = 0; i + 1 < bounds.size(); ++i)
    out_.inPiece(i, streams, [&] {
      std::vector<Value*> operands;
      for (int at = 0; at < op.numOperands(); ++at)
        operands.push_back(at < lead || op.in(at)->type.rank() == 0
                               ? operandRows(op.in(at), shape, bounds[i], bounds[i + 1])
                               : out_.ofRows(op.in(at), bounds[i], bounds[i + 1]));
      const Op* piece = clone(op, operands, attrs)->def;
      for (size_t result = 0; result < made.size(); ++result)
        made[result].values.push_back(piece->result(static_cast<int>(result)));
      return made[0].values.back();
    });
  for (size_t result = 0; result < made.size(); ++result) {
    Value* value = op.result(static_cast<int>(result));
    const bool full = value->type.elements() == shape.elements();
    finish(value, std::move(made[result]), full);
  }
  return true;
}

bool RowSplitter::elementwise(const Op& op) {
  const Type& type = op.result()->type;
  const bool byPlace = op.code == Opcode::reshape || op.code == Opcode::broadcast_to ||
                       op.code == Opcode::dropout || op.code == Opcode::where_causal;
  if (!keepsElements(op) || byPlace || type.rank() < 1) return false;
  const RowPieces* pieces = nullptr;
  for (const Operand& operand : op.operands) {
    if (!hasRows(operand.value, type.shape)) return false;
    pieces = finer(pieces, piecesOf(operand.value));
  }
  if (pieces) return byRows(op, op.numOperands(), boundsLike(*pieces, type), pieces->streams);
  // Its operands are not in pieces: only the binding limits it.
  if (type.bytes() <= binding_) return false;
  const RowBounds bounds = boundsFor(op, binding_);
  return bounds.size() > 2 && byRows(op, op.numOperands(), bounds, true);
}

/// Normalisations, softmax and their gradients, if they run along the last axis.
bool RowSplitter::composite(const Op& op) {
  const RowPieces* pieces = nullptr;
  const Shape& shape = op.result()->type.shape;
  if (op.info().attr("axis") && normalAxis(as::softmax(op).axis(), shape.rank()) != shape.rank() - 1)
    return false;
  if (op.info().attr("causal") && as::softmax(op).causal()) return false;
  for (const Operand& operand : op.operands) {
    if (!hasRows(operand.value, shape)) return false;
    pieces = finer(pieces, piecesOf(operand.value));
  }
  return pieces && byRows(op, op.numOperands(), pieces->bounds, pieces->streams);
}

/// Splits a cross entropy, or its gradient, by rows of the logits.
bool RowSplitter::crossEntropy(const Op& op) {
  const RowPieces* pieces = piecesOf(op.in(0));
  if (!pieces) return false;
  // Operand 0 is the logits; the others, targets and the gradient of the loss, have one number for each row, or one in all.
  if (op.code == Opcode::cross_entropy_grad) return byRows(op, 1, pieces->bounds, pieces->streams);
  const as::cross_entropy loss(op);
  const std::string reduction = loss.reduction();
  const bool joins = reduction == "none";
  AttrList attrs = op.attrs;
  if (!joins) set(attrs, "reduction", Attr::word("sum"));
  std::vector<Value*> rows;
  std::vector<TensorExpr> targetsOf;  // each piece
  Value* sum = nullptr;
  for (size_t i = 0; i < pieces->values.size(); ++i)
    sum = out_.inPiece(i, pieces->streams, [&] {
      Value* targets = out_.ofRows(loss.targets(), pieces->bounds[i], pieces->bounds[i + 1]);
      rows.push_back(build().op(Opcode::cross_entropy, {pieces->values[i], targets}, attrs));
      targetsOf.push_back({&build(), targets});
      return joins ? rows.back() : added(sum, rows.back());
    });
  if (joins) {
    replace(op.result(), out_.join(rows, op.result()->type));
    return true;
  }
  if (reduction == "mean" && ignoredTarget(op)) {
    sum = build().binary(Opcode::div, sum, countedRows(op, targetsOf, sum->type.dtype).value);
  } else if (reduction == "mean") {
    const auto count = static_cast<double>(pieces->bounds.back());
    sum = build().binary(Opcode::mul, sum, build().constant(1 / count, sum->type));
  }
  replace(op.result(), sum);
  return true;
}

/// A reduction along each row, whose results are joined, or over all rows, added up piece by piece.
bool RowSplitter::reduction(const Op& op) {
  const RowPieces* pieces = piecesOf(op.in(0));
  if (!pieces) return false;
  const Type& from = op.in(0)->type;
  const int last = from.rank() - 1;
  std::vector<int64_t> axes = as::sum(op).axes();
  for (int64_t& axis : axes) axis = normalAxis(axis, from.rank());
  const bool along = contains(axes, last);
  const bool over = static_cast<int>(axes.size()) - along == last;
  if (!over && !(along && axes.size() == 1)) return false;
  if (over && op.code == Opcode::logsumexp) return false;
  const Opcode code = over && op.code == Opcode::mean ? Opcode::sum : op.code;
  std::vector<int64_t> own;
  if (over) own.push_back(0);
  if (along) own.push_back(1);
  std::vector<Value*> parts;
  Value* sum = nullptr;
  for (size_t i = 0; i < pieces->values.size(); ++i)
    sum = out_.inPiece(i, pieces->streams, [&] {
      parts.push_back(build().reduce(code, pieces->values[i], own, false));
      return over ? added(sum, parts.back(), joining(code)) : parts.back();
    });
  if (!over) {
    replace(op.result(), out_.join(parts, op.result()->type));
    return true;
  }
  if (code != op.code) sum = meanOf(op, sum);
  replace(op.result(), build().reshape(sum, op.result()->type.shape));
  return true;
}

}  // namespace tg::fuse
