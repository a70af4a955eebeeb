// SPDX-License-Identifier: Apache-2.0
// split-rows: ops entry by entry of their first axis of several, such as convolutions image by image, products of many
// matrices, and elementwise ops whose operands are broadcast.
//
//   before:  %y = tg.conv2d %x, %w : tensor<64x96x112x112xf32>
//   after:   %a = tg.slice %x {starts = [0, 0, 0, 0], limits = [32, 96, 112, 112]}   %y_1 = tg.conv2d %a, %w
//            …                                                            the same of images 32 to 63
//
// A piece has whole entries. It is kept as a matrix of rows, as all pieces are; reshapes around an op change nothing in
// memory.

#include <algorithm>
#include <utility>

#include "ir/access.h"
#include "ir/attention_parts.h"
#include "ir/divide.h"
#include "ir/infer.h"
#include "ir/op_view.h"
#include "ir/rows.h"
#include "ir/window.h"
#include "passes/fuse/cost.h"
#include "passes/fuse/row_splitter.h"

namespace tg::fuse {

namespace {

/// Operands that broadcast to the result, whose last `own` axes are no entries; nothing if none of them is cut.
std::optional<Entries> broadcasting(const Op& op, int own) {
  const Shape& shape = op.result()->type.shape;
  const int rank = shape.rank(), axis = entryAxis(shape);
  if (axis >= rank - own) return {};
  Entries how{shape[axis], {}, false};
  for (const Operand& operand : op.operands) {
    const Shape& from = operand.value->type.shape;
    const int at = axis - (rank - from.rank());
    how.cut.push_back(at >= 0 && from[at] == how.count);
  }
  if (std::ranges::none_of(how.cut, [](bool cut) { return cut; })) return {};
  return how;
}

/// Entries are those of the first operand, not along its last `own` axes; operands with as many along that axis are
/// cut. Those from `behind` on broadcast to the first one's axes.
std::optional<Entries> together(const Op& op, int own, int behind) {
  const Shape& shape = op.in(0)->type.shape;
  const int axis = entryAxis(shape);
  if (axis >= shape.rank() - own) return {};
  Entries how{shape[axis], {}, false};
  for (int i = 0; i < op.numOperands(); ++i) {
    const Shape& from = op.in(i)->type.shape;
    const int at = i < behind ? axis : axis - (shape.rank() - from.rank());
    how.cut.push_back(at >= 0 && at < from.rank() && from[at] == how.count);
  }
  return how;
}

/// An op whose first operand is cut, and all others only if `all`.
std::optional<Entries> cuttingFirst(const Op& op, bool all = false) {
  Entries how{entryCount(op.in(0)->type), {}, false};
  for (int at = 0; at < op.numOperands(); ++at) {
    if (all && entryCount(op.in(at)->type) != how.count) return {};
    how.cut.push_back(all || at == 0);
  }
  return how;
}

/// The same for an op whose operands are all images, which are entries of axis 0.
std::optional<Entries> images(const Op& op) {
  return entryAxis(op.in(0)->type.shape) == 0 ? cuttingFirst(op, true) : std::nullopt;
}

}  // namespace

std::optional<Entries> entriesOf(const Op& op) {
  const bool ofValues = std::ranges::all_of(op.operands, [](const Operand& operand) {
    return operand.kind == Operand::Kind::value && operand.value->type.isTensor();
  });
  if (op.results.empty() || op.operands.empty() || !ofValues || op.in(0)->type.rank() == 0) return {};
  const Type &type = op.result()->type, &first = op.in(0)->type;
  const int rank = first.rank(), axis = entryAxis(first.shape);
  switch (op.code) {
  case Opcode::reshape: return {};  // RowSplitter::reshape
  case Opcode::sum:
  case Opcode::mean:
  case Opcode::max_reduce:
  case Opcode::min_reduce: {
    std::optional<Entries> how = cuttingFirst(op);
    how->sums = !keepsApart(op, axis);
    return how;
  }
  case Opcode::concat:
  case Opcode::take_along_axis:
  case Opcode::take_along_axis_grad:
  case Opcode::softmax_grad:
  case Opcode::log_softmax_grad:
    // An axis in front of the entries would no longer be one of 1.
    if (normalAxis(as::concat(op).axis(), rank) <= axis) return {};
    return cuttingFirst(op, true);
  case Opcode::dropout:
  case Opcode::one_hot: return cuttingFirst(op);
  case Opcode::transpose: {
    const std::vector<int64_t> perm = as::transpose(op).perm();
    return perm[static_cast<size_t>(entryAxis(type.shape))] == axis ? cuttingFirst(op) : std::nullopt;
  }
  case Opcode::pad:  // nothing in front of the entries either
    for (int at = 0; at <= axis; ++at)
      if (!keepsApart(op, at)) return {};
    return cuttingFirst(op);
  case Opcode::logsumexp:
  case Opcode::flip:
  case Opcode::argmax:
  case Opcode::argmin:
  case Opcode::cumsum:
  case Opcode::unfold:
  case Opcode::fold:
  case Opcode::softmax:
  case Opcode::log_softmax:
  case Opcode::where_causal:
  case Opcode::slice:
  case Opcode::conv2d:
  case Opcode::conv_transpose2d:
  case Opcode::max_pool2d:
  case Opcode::avg_pool2d:
  case Opcode::avg_pool2d_grad:
  case Opcode::upsample_nearest2d: return keepsApart(op, axis) ? cuttingFirst(op) : std::nullopt;
  case Opcode::max_pool2d_grad: return images(op);
  case Opcode::conv2d_grad_input: return Entries{type.shape[0], {false, true}, false};
  case Opcode::conv2d_grad_weight: {
    std::optional<Entries> how = images(op);
    if (how) how->sums = true;
    return how;
  }
  case Opcode::matmul: return broadcasting(op, 2);
  case Opcode::rope: return together(op, 2, op.numOperands());
  case Opcode::attention:
  case Opcode::attention_grad:
  case Opcode::attention_grad_q:
  case Opcode::attention_grad_kv: return together(op, 2, placeOfMore(op));
  case Opcode::broadcast_to: return broadcasting(op, 0);
  default: return keepsElements(op) && type.rank() > 0 ? broadcasting(op, 0) : std::nullopt;
  }
}

/// The most bytes of one entry of a value that an op makes on the way or returns.
static int64_t entryBytes(const Op& op, const Entries& how) {
  int64_t most = 0;
  auto add = [&](const Type& type) {
    if (entryCount(type) == how.count) most = std::max(most, type.bytes() / how.count);
  };
  for (const auto& result : op.results)
    if (!how.sums) add(result->type);
  // Blocks of a long axis, the last of which is filled up (split_reductions.cpp).
  if (op.code == Opcode::cumsum) {
    const int64_t extent = op.in(0)->type.shape[normalAxis(as::cumsum(op).axis(), op.in(0)->type.rank())];
    return extent > 2 * kScanBlock ? most / extent * alignTo(extent, kScanBlock) : most;
  }
  const bool scatters = op.code == Opcode::conv2d_grad_input || op.code == Opcode::conv_transpose2d;
  if (op.code != Opcode::conv2d && op.code != Opcode::conv2d_grad_weight && !scatters) return most;
  // Padded images; and the gradients of windows, if the stride is not 1 (ir/decompose/window.cpp).
  const std::vector<int64_t> padding = as::conv2d(op).padding(), stride = as::conv2d(op).stride();
  for (size_t at = 0; at < how.cut.size(); ++at) {
    if (!how.cut[at]) continue;
    const Type& image = op.in(static_cast<int>(at))->type;
    const int64_t planes = image.shape[1] * byteSize(image.dtype);
    most = std::max(most, planes * (image.shape[2] + 2 * padding[0]) * (image.shape[3] + 2 * padding[1]));
  }
  if (scatters && (stride[0] != 1 || stride[1] != 1)) {
    const Type &dy = op.in(op.code == Opcode::conv2d_grad_input ? 1 : 0)->type,
               &w = op.in(op.code == Opcode::conv2d_grad_input ? 0 : 1)->type;
    const int64_t windows = op.result()->type.shape[1] * w.shape[2] * w.shape[3];
    most = std::max(most, windows * dy.shape[2] * dy.shape[3] * byteSize(dy.dtype));
  }
  return most;
}

/// Entries [from, to) of a value, with all its axes.
Value* RowSplitter::entries(Value* value, int64_t from, int64_t to) {
  Shape shape = value->type.shape;
  const int axis = entryAxis(shape);
  const int64_t count = shape[axis];
  shape[axis] = to - from;
  if (shape.rank() == 1) return out_.ofRows(value, from, to);
  const int64_t rows = rowCount(value->type) / count;
  return build().reshape(out_.rows(value, from * rows, to * rows), shape);
}

/// The entries at which an op is cut: where its operand in pieces is, or anew. Nothing if entries cannot be pieces.
std::optional<RowBounds> RowSplitter::entryBounds(const Op& op, const Entries& how,
                                                  const RowPieces* pieces) const {
  int64_t bytes = std::max<int64_t>(entryBytes(op, how), 1);
  if (bytes * how.count <= binding_ && !pieces) return {};
  for (const Operand& operand : op.operands)
    if (piecesOf(operand.value)) bytes = std::max(bytes, operand.value->type.bytes() / how.count);
  if (pieces && pieces->bounds.back() % how.count == 0) {
    std::optional<RowBounds> bounds = inEntries(pieces->bounds, pieces->bounds.back() / how.count);
    if (bounds && mostRows(*bounds) * bytes <= binding_) return bounds;
  }
  RowBounds bounds = cutRows(how.count, bytes, binding_);
  if (bounds.size() > 2) return bounds;
  bounds = cutAnywhere(how.count, bytes, binding_);
  return bounds.empty() ? std::nullopt : std::optional(bounds);
}

/// The attributes of an op with entries [from, to) of its operands.
static AttrList ofEntries(const Op& op, const Entries& how, int64_t from, int64_t to) {
  AttrList attrs = op.attrs;
  auto extent = [&](const char* name, std::vector<int64_t> numbers, const Shape& shape) {
    numbers[static_cast<size_t>(entryAxis(shape))] = to - from;
    set(attrs, name, Attr::ints(numbers));
  };
  if (op.code == Opcode::slice) extent("limits", as::slice(op).limits(), op.in(0)->type.shape);
  if (op.code == Opcode::broadcast_to) extent("shape", as::broadcast_to(op).shape(), op.result()->type.shape);
  if (op.code == Opcode::dropout)
    set(attrs, "first",
        Attr::of(as::dropout(op).first() + from * (op.result()->type.elements() / how.count)));
  return attrs;
}

/// The pieces of all results.
std::vector<RowPieces> RowSplitter::pieceResults(const Op& op, const Entries& how, const RowBounds& bounds,
                                                 bool streams) {
  std::vector<RowPieces> made(op.results.size(), RowPieces{{}, {}, streams});
  for (size_t i = 0; i + 1 < bounds.size(); ++i)
    out_.inPiece(i, streams, [&] {
      std::vector<Value*> operands;
      for (int at = 0; at < op.numOperands(); ++at)
        operands.push_back(how.cut[static_cast<size_t>(at)] ? entries(op.in(at), bounds[i], bounds[i + 1])
                                                            : op.in(at));
      const Op* piece = clone(op, operands, ofEntries(op, how, bounds[i], bounds[i + 1]))->def;
      for (size_t at = 0; at < made.size(); ++at) {
        Value* value = piece->result(static_cast<int>(at));
        const Shape& shape = value->type.shape;
        if (shape.rank() > 1)
          value = build().reshape(value, {value->type.elements() / shape.back(), shape.back()});
        made[at].values.push_back(value);
      }
      return made[0].values.back();
    });
  for (size_t at = 0; at < made.size(); ++at) {
    const Type& type = op.result(static_cast<int>(at))->type;
    for (int64_t bound : bounds) made[at].bounds.push_back(bound * (rowCount(type) / how.count));
  }
  return made;
}

/// The sum over entries, added up piece by piece.
Value* RowSplitter::addedEntries(const Op& op, const RowBounds& bounds, bool streams) {
  const bool reduces = op.code != Opcode::conv2d_grad_weight;
  const Opcode code = op.code == Opcode::mean ? Opcode::sum : op.code;
  Value* sum = nullptr;
  for (size_t i = 0; i + 1 < bounds.size(); ++i)
    sum = out_.inPiece(i, streams, [&] {
      std::vector<Value*> operands;
      for (const Operand& operand : op.operands)
        operands.push_back(entries(operand.value, bounds[i], bounds[i + 1]));
      Value* part = reduces ? build().reduce(code, operands[0], as::sum(op).axes(), as::sum(op).keepdims())
                            : build().op(code, operands, op.attrs);
      return added(sum, part, joining(code));
    });
  return op.code == Opcode::mean ? meanOf(op, sum) : sum;
}

/// Whether every piece of a dropout can begin with its number: a multiple of 4, of 32 bits.
static bool drawsQuads(const Op& op, const RowBounds& bounds, int64_t count) {
  const int64_t all = op.result()->type.elements(), each = all / count;
  return as::dropout(op).first() + all <= UINT32_MAX &&
         std::all_of(bounds.begin(), bounds.end() - 1, [&](int64_t bound) { return bound * each % 4 == 0; });
}

bool RowSplitter::byEntries(const Op& op) {
  const std::optional<Entries> how = entriesOf(op);
  if (!how || how->count < 2) return false;
  for (const auto& result : op.results)
    if (!how->sums && !hasWholeRows(result->type)) return false;
  const RowPieces* pieces = nullptr;
  int64_t most = 0;  // elements of the operands in pieces
  for (int at = 0; at < op.numOperands(); ++at) {
    const RowPieces* own = piecesOf(op.in(at));
    const bool cut = how->cut[static_cast<size_t>(at)];
    if (cut ? !hasWholeRows(op.in(at)->type) : own != nullptr) return false;
    if (own) most = std::max(most, op.in(at)->type.elements());
    pieces = finer(pieces, own);
  }
  const std::optional<RowBounds> bounds = entryBounds(op, *how, pieces);
  if (!bounds || (op.code == Opcode::dropout && !drawsQuads(op, *bounds, how->count))) return false;
  const bool streams = !pieces || pieces->streams;
  if (how->sums) {
    replace(op.result(), addedEntries(op, *bounds, streams));
    return true;
  }
  if (!pieces) {
    const Type& type = op.result()->type;
    const bool onTheWay = type.bytes() <= binding_;
    context_.remark(
        op.loc, "%{} : {} takes {} bytes{}, more than {}; it is computed in {} pieces of {} entries",
        op.result()->name, type.str(), onTheWay ? entryBytes(op, *how) * how->count : type.bytes(),
        onTheWay ? " while it is computed" : "", binding_, bounds->size() - 1, (*bounds)[1]);
  }
  std::vector<RowPieces> made = pieceResults(op, *how, *bounds, streams);
  for (size_t at = 0; at < made.size(); ++at) {
    Value* result = op.result(static_cast<int>(at));
    const bool stays = result->type.rank() > 1 &&
                       (result->type.bytes() > binding_ || (most && result->type.elements() >= most));
    finish(result, std::move(made[at]), stays);
  }
  return true;
}

}  // namespace tg::fuse
