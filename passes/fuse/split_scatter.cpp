// SPDX-License-Identifier: Apache-2.0
#include "passes/fuse/split_scatter.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "codegen/schedule.h"
#include "ir/infer.h"
#include "ir/op_view.h"
#include "passes/fuse/cost.h"
#include "passes/fuse/pieces.h"

namespace tg::fuse {
namespace {

class ScatterSplitter {
 public:
  ScatterSplitter(Builder& builder, const Target& target) : builder_(builder), target_(target) {}

  /// Replaces a scatter in which, as it is, every row compares every id and adds the matching updates in order.
  Value* split(const Op& op) {
    const int64_t rows = as::scatter_add(op).rows(), count = op.in(0)->type.elements();
    if (op.numOperands() > 2) return nullptr;
    if (target_.reduce == "workgroup") {
      // As many pieces as let the elements of their rows fill the device.
      const int64_t units = (op.result()->type.elements() + 3) / 4;
      const int64_t most = std::min(kScatterFill * target_.parallel / units, count / kLeastScatterPiece);
      if (const Pieces pieces = piecesUpTo(count, std::max<int64_t>(1, most), kIdsAtOnce);
          pieces.count >= kFewestScatterPieces)
        return scatterPieces(op, pieces);
    }
    const bool large = rows >= kScatterSide && count >= kScatterSide && rows * count >= kScatterWork;
    return large ? scatterBlocks(op) : nullptr;
  }

 private:
  Value* number(int64_t value) {
    return builder_.constant(static_cast<double>(value), Type::tensor(DType::i32, {}));
  }
  /// Ids as i32. Ids from 2^31 on become negative, and so stay out of range.
  Value* signedIds(Value* ids) { return builder_.cast(ids, DType::i32); }
  /// The indices 0, step, 2·step, … along one axis; no kernel stores them.
  Value* counted(int64_t count, int64_t step, const Shape& shape) {
    Value* index = builder_.op(Opcode::iota, {}, {}, {Type::tensor(DType::i32, {count})});
    if (step != 1) index = builder_.binary(Opcode::mul, index, number(step));
    return builder_.reshape(index, shape);
  }
  /// Ids and rows of updates, padded to `count` by ids that match no row and by zeros.
  std::pair<Value*, Value*> filledTo(Value* ids, Value* updates, int64_t count) {
    const int64_t own = ids->type.elements();
    if (own == count) return {signedIds(ids), updates};
    return {
        filled(builder_, builder_.reshape(signedIds(ids), {own}), 0, count - own, -1),
        filled(builder_, builder_.reshape(updates, {own, updates->type.elements() / own}), 0, count - own)};
  }
  /// `value` where begin <= x < begin + width, else `otherwise`.
  Value* within(Value* x, Value* begin, int64_t width, Value* value, Value* otherwise) {
    if (width == 1)
      return builder_.op(Opcode::select, {builder_.binary(Opcode::equal, x, begin), value, otherwise});
    Value* off = builder_.binary(Opcode::sub, x, begin);
    Value* below =
        builder_.op(Opcode::select, {builder_.binary(Opcode::less, off, number(width)), value, otherwise});
    return builder_.op(Opcode::select,
                       {builder_.binary(Opcode::greater_equal, off, number(0)), below, otherwise});
  }

  /// For few rows and many ids: each piece of the ids adds to its own copy of the rows, and a second kernel sums the copies.
  ///
  ///   ids    [piece 0 | piece 1 | …]     row r of piece k is row k·rows + r of a larger table; `near` says that all of its
  ///                                      updates are in block k
  Value* scatterPieces(const Op& op, const Pieces& piece) {
    const as::scatter_add scatter(op);
    const int64_t rows = scatter.rows(), pieces = piece.count, length = piece.width;
    const int64_t width = op.result()->type.elements() / rows;
    const auto [flatIds, flatUpdates] = filledTo(scatter.ids(), scatter.updates(), pieces * length);
    Value* ids = builder_.reshape(flatIds, {pieces, length});
    Value* own = within(ids, number(0), rows, ids, number(-pieces * rows));  // ids outside stay outside
    own = builder_.binary(Opcode::add, own, counted(pieces, rows, {pieces, 1}));
    builder_.setHint("near");
    Value* near =
        within(counted(pieces, 1, {pieces, 1}), counted(pieces, 1, {1, pieces}), 1, number(1), number(0));
    builder_.setHint("");
    Value* updates = builder_.reshape(flatUpdates, {pieces, length, width});
    Value* parts =
        builder_.op(Opcode::scatter_add, {own, updates, near}, {{"rows", Attr::of(pieces * rows)}});
    Value* sum = builder_.reduce(Opcode::sum, builder_.reshape(parts, {pieces, rows, width}), {0}, false);
    return builder_.reshape(sum, op.result()->type.shape);
  }

  /// For many rows and ids: a first kernel finds which blocks of ids have any near which rows (`near`). The order of sums
  /// does not change.
  Value* scatterBlocks(const Op& op) {
    const bool byGroups = target_.reduce == "workgroup";
    const int64_t flags = byGroups ? kGroupFlags : kLaneFlags;
    const int64_t narrowest = byGroups ? kNarrowestGroupBucket : kNarrowestLaneBucket;
    Value *ids = op.in(0), *updates = as::scatter_add(op).updates();
    const int64_t rows = as::scatter_add(op).rows(),
                  largest = byGroups ? kGroupScatterBlock : kLaneScatterBlock;
    int64_t count = ids->type.elements(), block = divisorUpTo(count, largest);
    if (block < kLeastScatterBlock) {
      block = largest;
      count = (count + block - 1) / block * block;
      std::tie(ids, updates) = filledTo(ids, updates, count);
    }
    const int64_t blocks = count / block;
    // Rows of a bucket. This kernel compares each id with rows / width buckets. In the scatter, each vector of each row
    // of a bucket searches a block of ids if two ids share a flag, at most count / 2 times: width · vectors · block / 2
    // comparisons for each id. The sum is least where both are equal.
    const int64_t vectors = (op.result()->type.elements() / rows + 3) / 4;
    const auto even = static_cast<int64_t>(
        std::sqrt(2.0 * static_cast<double>(rows) / static_cast<double>(block * vectors)));
    const int64_t width = std::max({narrowest, even, (rows * blocks + flags - 1) / flags});
    const int64_t buckets = (rows + width - 1) / width;
    Value* cut = builder_.reshape(signedIds(ids), {1, blocks, block});
    Shape firsts{buckets, 1, 1}, places{1, 1, block};
    if (byGroups) {
      // An invocation searches a block for 4 neighbouring buckets, so that all four share the loads of ids: ids along the
      // first axis, buckets along the last. With rows of ids summed by workgroups a step of GPT-2 took 284 µs for this.
      cut = builder_.transpose(cut, {2, 1, 0});
      std::swap(firsts[0], firsts[2]);
      std::swap(places[0], places[2]);
    }
    // The sum of these tells none, the position of a single id, and several apart (kOneNear).
    Value* found = builder_.binary(Opcode::add, counted(block, 1, places), number(kOneNear));
    Value* inside = within(cut, counted(buckets, width, firsts), width, found, number(0));
    builder_.setHint("near");
    Value* near = builder_.reduce(Opcode::sum, inside, {byGroups ? 0 : 2}, false);
    if (byGroups) near = builder_.transpose(near, {1, 0});
    builder_.setHint("");
    Value* sums = builder_.op(Opcode::scatter_add, {ids, updates, near}, {{"rows", op.attr("rows")}});
    return builder_.reshape(sums, op.result()->type.shape);
  }

  Builder& builder_;
  const Target& target_;
};

}  // namespace

Value* splitScatter(Builder& builder, const Op& op, const Target& target) {
  return ScatterSplitter(builder, target).split(op);
}

}  // namespace tg::fuse
