// SPDX-License-Identifier: Apache-2.0
// split-rows: views that move entries, box by box, and composites along entries. A box is a range along each axis.
//
//   before:  %y = tg.transpose %x {perm = [1, 0, 2]} : tensor<300x256x512xf32>            // %x in two pieces %x_1, %x_2
//   after:   %a = tg.slice %x_1 {…} : tensor<128x150x512xf32>                             // the box of %y_1 in %x_1
//            %b = tg.slice %x_2 {…} : tensor<128x150x512xf32>
//            %c = tg.concat %a, %b {axis = 0} : tensor<256x150x512xf32>
//            %y_1 = tg.transpose %c {perm = [1, 0, 2]} : tensor<150x256x512xf32>
//            …                                                                            the same of entries 150 to 300
//
//   views        slices, pads, flips and transposes: each piece of the result is the view of a box of the operand, which is
//                read from the operand's pieces; a pad's piece may have no element of the operand
//   composites   a softmax along the entries, for example, is split as its decomposition

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "ir/access.h"
#include "ir/divide.h"
#include "ir/infer.h"
#include "ir/op_view.h"
#include "passes/fuse/row_splitter.h"
#include "passes/rewrite.h"

namespace tg::fuse {

/// Most boxes that the pieces of one transpose are read from.
static constexpr size_t kMostBoxes = 4096;

/// The boxes of a value too large for one binding, if each element takes the bytes of `read`. Nothing if not even a row fits.
std::optional<BoxCut> RowSplitter::boxCut(const Type& type, int64_t read) const {
  int64_t bytes = type.bytes() * read;
  for (int axis = 0; axis + 1 < type.rank(); ++axis) {
    const int64_t extent = type.shape[axis];
    bytes /= extent;  // of one index
    if (bytes > binding_ || extent == 1) continue;
    RowBounds bounds = cutFinely(extent, bytes, binding_);
    if (bounds.empty()) bounds = cutAnywhere(extent, bytes, binding_);
    if (bounds.empty()) return {};
    return BoxCut{axis, std::move(bounds)};
  }
  return {};
}

/// The boxes in which a value in pieces is read: its pieces, if these have whole entries.
std::optional<BoxCut> RowSplitter::boxCut(const Value& value, const RowPieces& pieces) const {
  const int axis = entryAxis(value.type.shape);
  const int64_t rows = rowCount(value.type) / value.type.shape[axis];
  std::optional<RowBounds> bounds = inEntries(pieces.bounds, rows);
  if (!bounds || !hasWholeRows(value.type)) return boxCut(value.type);
  return BoxCut{axis, *std::move(bounds)};
}

/// The cut of a value that fits a binding.
static BoxCut asOne(const Type& type) { return {0, {0, type.shape[0]}}; }

/// All boxes of a value that is cut so, in the order of their rows.
static std::vector<Box> boxesOf(const Shape& shape, const BoxCut& cut) {
  const auto rank = static_cast<size_t>(shape.rank());
  std::vector<Box> boxes{{std::vector<int64_t>(rank), {shape.begin(), shape.end()}}};
  for (int axis = 0; axis <= cut.axis; ++axis) {
    RowBounds bounds = cut.bounds;
    if (axis < cut.axis) {
      bounds.resize(static_cast<size_t>(shape[axis]) + 1);
      std::iota(bounds.begin(), bounds.end(), 0);
    }
    const auto place = static_cast<size_t>(axis);
    std::vector<Box> finer;
    for (Box box : boxes)
      for (size_t i = 0; i + 1 < bounds.size(); ++i) {
        box.from[place] = bounds[i], box.to[place] = bounds[i + 1];
        finer.push_back(box);
      }
    boxes = std::move(finer);
  }
  return boxes;
}

/// A box of a value.
Value* RowSplitter::boxOf(Value* x, const Box& box) {
  const RowPieces* pieces = piecesOf(x);
  return pieces ? boxOf(x, *boxCut(*x, *pieces), box, 0, 0) : build().slice(x, box.from, box.to);
}

/// The same of a value in pieces, along `axis` and those behind it. `row` is the first row with the chosen indices in front.
Value* RowSplitter::boxOf(Value* x, const BoxCut& cut, const Box& box, int axis, int64_t row) {
  const auto place = static_cast<size_t>(axis);
  Shape shape = x->type.shape;
  int64_t rows = 1;  // of one index
  for (int behind = axis + 1; behind + 1 < shape.rank(); ++behind) rows *= shape[behind];
  std::vector<Value*> parts;
  for (int64_t i = box.from[place]; axis < cut.axis && i < box.to[place]; ++i)
    parts.push_back(boxOf(x, cut, box, axis + 1, row + i * rows));
  for (size_t i = 0; axis == cut.axis && i + 1 < cut.bounds.size(); ++i) {
    const int64_t from = cut.bounds[i], to = cut.bounds[i + 1];
    if (to <= box.from[place] || box.to[place] <= from) continue;
    for (int front = 0; front < axis; ++front) shape[front] = 1;
    shape[axis] = to - from;
    Box own = box;
    for (size_t front = 0; front < place; ++front) own.from[front] = 0, own.to[front] = 1;
    own.from[place] = std::max(box.from[place], from) - from;
    own.to[place] = std::min(box.to[place], to) - from;
    parts.push_back(build().slice(build().reshape(out_.rows(x, row + from * rows, row + to * rows), shape),
                                  own.from, own.to));
  }
  return parts.size() == 1 ? parts[0] : out_.concat(std::move(parts), axis);
}

/// A box of the result of a tg.pad. Element i of the operand is at low + i · (1 + interior) along an axis.
Value* RowSplitter::padded(const Op& op, Box box) {
  const as::pad pad(op);
  const Shape& shape = op.in(0)->type.shape;
  std::vector<int64_t> low = pad.low(), high = pad.high(), interior = pad.interior();
  Shape own;
  for (size_t axis = 0; axis < low.size(); ++axis) {
    const int64_t step = interior.empty() ? 1 : 1 + interior[axis], extent = shape[static_cast<int>(axis)];
    const int64_t start = low[axis], from = box.from[axis] - start, to = box.to[axis] - start;
    own.push(to - from);
    box.from[axis] = divideCeil(std::max<int64_t>(from, 0), step);
    box.to[axis] = std::min(extent, divideCeil(std::max<int64_t>(to, 0), step));
    low[axis] = box.from[axis] * step - from;
    high[axis] = to - ((box.to[axis] - 1) * step + 1);
  }
  const bool any = std::ranges::equal(box.from, box.to, std::less<>());
  if (!any) return build().constant(pad.value(), Type::tensor(op.result()->type.dtype, own));
  return build().pad(boxOf(op.in(0), box), low, high, pad.value(), interior);
}

/// A box of the result of a view.
Value* RowSplitter::viewOf(const Op& op, const Box& box) {
  Value* x = op.in(0);
  Box from = box;  // the operand's
  switch (op.code) {
  case Opcode::pad: return padded(op, box);
  case Opcode::transpose: {
    const std::vector<int64_t> perm = as::transpose(op).perm();
    for (size_t i = 0; i < perm.size(); ++i) {
      from.from[static_cast<size_t>(perm[i])] = box.from[i];
      from.to[static_cast<size_t>(perm[i])] = box.to[i];
    }
    return build().transpose(boxOf(x, from), perm);
  }
  case Opcode::flip: {
    for (int64_t each : as::flip(op).axes()) {
      const int axis = normalAxis(each, x->type.rank());
      const auto place = static_cast<size_t>(axis);
      from.from[place] = x->type.shape[axis] - box.to[place];
      from.to[place] = x->type.shape[axis] - box.from[place];
    }
    return build().op(op.code, {boxOf(x, from)}, op.attrs);
  }
  default: {
    const as::slice slice(op);
    std::vector<int64_t> strides = slice.strides(), none(box.from.size()), all = none;
    if (strides.empty()) strides.assign(none.size(), 1);
    for (size_t i = 0; i < none.size(); ++i) {
      from.from[i] = slice.starts()[i] + box.from[i] * strides[i];
      from.to[i] = slice.starts()[i] + (box.to[i] - 1) * strides[i] + 1;
      all[i] = from.to[i] - from.from[i];
    }
    return build().slice(boxOf(x, from), none, all, strides);
  }
  }
}

/// The elements that a view reads for each of its own.
static int64_t readsEach(const Op& op) {
  int64_t read = 1;
  if (op.code == Opcode::slice)
    for (int64_t stride : as::slice(op).strides()) read *= stride;
  return read;
}

/// A view of a value in pieces, or one that is itself too large.
bool RowSplitter::view(const Op& op) {
  const Type &from = op.in(0)->type, &type = op.result()->type;
  const RowPieces* pieces = piecesOf(op.in(0));
  const int64_t read = readsEach(op);
  const bool large = type.bytes() * read > binding_;
  if (type.bytes() <= binding_ && !(pieces && from.bytes() > binding_)) return false;
  const std::optional<BoxCut> cut = large ? boxCut(type, read) : asOne(type);
  const std::optional<BoxCut> own = pieces ? boxCut(*op.in(0), *pieces) : asOne(from);
  if (!cut || !own) return false;
  const std::vector<Box> boxes = boxesOf(type.shape, *cut);
  // Each piece of a transpose may have a part of each piece of the operand.
  const size_t parts = op.code == Opcode::transpose ? boxesOf(from.shape, *own).size() : 1;
  if (boxes.size() > kMostRowPieces || boxes.size() * parts > kMostBoxes) return false;
  RowPieces made{{0}, {}, large && (!pieces || pieces->streams)};
  for (const Box& box : boxes)
    made.values.push_back(out_.inPiece(made.values.size(), made.streams, [&] {
      Value* value = viewOf(op, box);
      const int64_t rows = rowCount(value->type);
      made.bounds.push_back(made.bounds.back() + rows);
      return build().reshape(value, {rows, type.shape.back()});
    }));
  if (!pieces)
    context_.remark(op.loc, "%{} : {} takes {} bytes, more than {}; it is computed in {} pieces of {} rows",
                    op.result()->name, type.str(), type.bytes(), binding_, boxes.size(), made.bounds[1]);
  finish(op.result(), std::move(made), type.bytes() > binding_);
  return true;
}

/// A composite along an axis that is cut, such as a softmax over a batch, of a value that is too large. Its parts are split.
bool RowSplitter::alongEntries(const Op& op) {
  if (op.info().fusion != table::Fusion::row || !op.info().has(table::composite)) return false;
  const bool large = std::ranges::any_of(op.operands, [&](const Operand& operand) {
    return piecesOf(operand.value) && operand.value->type.bytes() > binding_;
  });
  if (!large) return false;
  std::vector<Value*> results;
  OpList parts = out_.apart([&] { results = expandOp(op, build()); });
  for (size_t i = 0; i < results.size(); ++i) replace(op.result(static_cast<int>(i)), results[i]);
  takeAll(std::move(parts));
  return true;
}

bool RowSplitter::moves(const Op& op) {
  switch (op.code) {
  case Opcode::slice:
  case Opcode::pad:
  case Opcode::flip:
  case Opcode::transpose: return view(op);
  default: return alongEntries(op);
  }
}

}  // namespace tg::fuse
