// SPDX-License-Identifier: Apache-2.0
#include "passes/fuse/split_parts.h"

#include <algorithm>

#include "codegen/schedule.h"
#include "ir/infer.h"
#include "ir/op_view.h"
#include "passes/fuse/cost.h"
#include "passes/fuse/pieces.h"
#include "passes/fuse/sort_ids.h"

namespace tg::fuse {
namespace {

class ScatterSplitter {
 public:
  ScatterSplitter(Builder& builder, const Target& target) : builder_(builder), target_(target) {}

  /// Replaces a scatter in which, as it is, every row compares every id and adds the matching updates in order.
  Value* split(const Op& op) {
    const int64_t rows = as::scatter_add(op).rows(), count = idsOf(op);
    if (op.numOperands() > 2 || as::scatter_add(op).pieces() > 1) return nullptr;
    const int64_t units = (op.result()->type.elements() + 3) / 4;
    const bool comparesFew = count <= kPieceWork / units, areRowsLong = count / rows >= kLongRow;
    if (target_.reduce == "workgroup" && (comparesFew || areRowsLong)) {
      // As many pieces as let the elements of their rows fill the device.
      const int64_t most = std::min(kScatterFill * target_.parallel / units, count / kLeastScatterPiece);
      if (const Pieces pieces = piecesUpTo(count, std::max<int64_t>(1, most), kIdsAtOnce);
          pieces.count >= kFewestScatterPieces)
        return scatterPieces(op, pieces);
    }
    return sorts(rows, op.result()->type.elements() / rows, count) ? scatterSorted(op) : nullptr;
  }

  /// The gradient of a tg.take_along_axis, in which every element compares all ids along its axis, as a scatter to a flat
  /// result, if that sorts them:
  ///
  ///   dx[p, id[p, l, q], q] += dy[p, l, q]      row (p·n + id)·r + q, with p < P, id < n and q < r
  Value* takeAlong(const Op& op) {
    const as::take_along_axis_grad grad(op);
    const Type &result = op.result()->type, &ids = op.in(0)->type;
    const int axis = static_cast<int>(normalAxis(grad.axis(), result.shape.rank()));
    const int64_t n = result.shape[axis], length = ids.shape[axis];
    // An element of the gradient compares two ids in the time that a row of a scatter takes for one.
    const bool pays = n * length / 2 >= length * kSortedId + n * kFoundRow;
    if (!pays || !sorts(result.elements(), 1, ids.elements())) return nullptr;
    int64_t outer = 1, inner = 1;
    for (int at = 0; at < axis; ++at) outer *= result.shape[at];
    for (int at = axis + 1; at < result.shape.rank(); ++at) inner *= result.shape[at];
    auto places = [&](int64_t count, int64_t step, const Shape& shape) {
      Value* numbers = builder_.op(Opcode::iota, {}, {}, {Type::tensor(DType::i32, {count})});
      Value* by = builder_.scalar(static_cast<double>(step), DType::i32);
      return builder_.reshape(builder_.binary(Opcode::mul, numbers, by), shape);
    };
    Value* own = builder_.reshape(builder_.cast(op.in(0), DType::i32), {outer, length, inner});
    Value* row = builder_.binary(Opcode::mul, own, builder_.scalar(static_cast<double>(inner), DType::i32));
    row = builder_.binary(Opcode::add, row, places(outer, n * inner, {outer, 1, 1}));
    row = builder_.binary(Opcode::add, row, places(inner, 1, {1, 1, inner}));
    row = builder_.reshape(whereRow(builder_, own, n, row, -1), {ids.elements()});
    Value* updates = builder_.reshape(grad.dy(), {ids.elements()});
    Value* flat = builder_.op(Opcode::scatter_add, {row, updates}, {{"rows", Attr::of(result.elements())}});
    return builder_.reshape(scatterSorted(*flat->def), result.shape);
  }

 private:
  /// Whether ids are sorted for rows of this width: they are many, their tables fit a binding, and it takes less time.
  bool sorts(int64_t rows, int64_t width, int64_t count) const {
    if (rows < kScatterSide || count < kScatterSide || rows * count < kScatterWork) return false;
    if (std::max(rows + 1, 2 * count) * byteSize(DType::i32) > mostBytes(target_)) return false;
    return target_.reduce == "workgroup" || rows * (width % 4 == 0 ? width / 4 : width) >= kSortedId;
  }

  static int64_t idsOf(const Op& op) { return op.in(0)->type.elements(); }
  /// The ids as i32, in one axis. Ids from 2^31 on become negative, and so stay out of range.
  Value* flat(Value* ids) { return builder_.reshape(builder_.cast(ids, DType::i32), {ids->type.elements()}); }

  /// For few rows and many ids: each piece of the ids adds to its own copy of the rows, and a second kernel sums the copies.
  ///
  ///   ids    [piece 0 | piece 1 | …]     row r of piece k is row k·rows + r of a larger table
  Value* scatterPieces(const Op& op, const Pieces& piece) {
    const as::scatter_add scatter(op);
    const int64_t rows = scatter.rows(), pieces = piece.count, length = piece.width;
    const int64_t width = op.result()->type.elements() / rows, missing = pieces * length - idsOf(op);
    Value* ids = flat(scatter.ids());
    Value* updates = builder_.reshape(scatter.updates(), {idsOf(op), width});
    if (missing > 0) {
      ids = filled(builder_, ids, 0, missing, -1);  // -1 is no row
      updates = filled(builder_, updates, 0, missing);
    }
    ids = builder_.reshape(ids, {pieces, length});
    Value* first = builder_.op(Opcode::iota, {}, {}, {Type::tensor(DType::i32, {pieces})});
    first = builder_.reshape(
        builder_.binary(Opcode::mul, first, builder_.scalar(static_cast<double>(rows), DType::i32)),
        {pieces, 1});
    Value* own = whereRow(builder_, ids, rows, builder_.binary(Opcode::add, ids, first), -1);
    Value* parts = builder_.op(Opcode::scatter_add, {own, builder_.reshape(updates, {pieces, length, width})},
                               {{"rows", Attr::of(pieces * rows)}, {"pieces", Attr::of(pieces)}});
    Value* sum = builder_.reduce(Opcode::sum, builder_.reshape(parts, {pieces, rows, width}), {0}, false);
    return builder_.reshape(sum, op.result()->type.shape);
  }

  /// For many rows and ids: a row visits only its own ids, which kernels find by sorting. The order of sums does not change.
  /// All ids may be those of one row. If that takes more iterations than the target's loops have, the ids are scattered in
  /// parts, and the results are added.
  Value* scatterSorted(const Op& op) {
    const as::scatter_add scatter(op);
    const int64_t rows = scatter.rows(), count = idsOf(op);
    constexpr int64_t kIterations =
        kSumBlock / kSortedAtOnce + 2;  // of two loops, that add kSumBlock updates
    const int64_t most = std::max<int64_t>(1, target_.loopIterations / kIterations - 1) * kSumBlock;
    auto sum = [&](Value* ids, Value* updates) {
      const SortedIds sorted = sortIds(builder_, flat(ids), rows, target_);
      return builder_.op(Opcode::scatter_add, {ids, updates, sorted.order, sorted.offsets},
                         {{"rows", Attr::of(rows)}});
    };
    if (count <= most) return sum(scatter.ids(), scatter.updates());
    Value *ids = flat(scatter.ids()), *out = nullptr;
    Value* updates = builder_.reshape(scatter.updates(), {count, op.result()->type.elements() / rows});
    for (int64_t first = 0; first < count; first += most) {
      const int64_t end = std::min(first + most, count);
      Value* part = sum(builder_.part(ids, 0, first, end), builder_.part(updates, 0, first, end));
      out = out ? builder_.binary(Opcode::add, out, part) : part;
    }
    return builder_.reshape(out, op.result()->type.shape);
  }

  Builder& builder_;
  const Target& target_;
};

}  // namespace

Value* splitScatter(Builder& builder, const Op& op, const Target& target) {
  ScatterSplitter splitter(builder, target);
  return op.code == Opcode::scatter_add ? splitter.split(op) : splitter.takeAlong(op);
}

}  // namespace tg::fuse
