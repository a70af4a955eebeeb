// SPDX-License-Identifier: Apache-2.0
#include "ir/divide.h"
#include "passes/fuse/split_parts.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "codegen/schedule.h"
#include "ir/access.h"
#include "ir/attention_parts.h"
#include "ir/op_view.h"
#include "ir/tensor_expr.h"
#include "passes/fuse/cost.h"
#include "passes/fuse/inline_ops.h"
#include "passes/fuse/pieces.h"

namespace tg::fuse {

bool wantsFlatRows(const Op& op) {
  if (op.code != Opcode::matmul || as::matmul(op).transpose_a()) return false;
  const Shape &matrix = as::matmul(op).rhs()->type.shape, &out = op.result()->type.shape;
  const int64_t rows = out[out.rank() - 2];
  const bool oneMatrix = matrix.elements() == matrix[matrix.rank() - 2] * matrix.back();
  return oneMatrix && out.elements() > rows * out.back() && rows % kFullRows != 0;
}

Value* flatRows(Builder& builder, const Op& op) {
  const Shape &a = as::matmul(op).lhs()->type.shape, &b = as::matmul(op).rhs()->type.shape;
  Value* rows = builder.reshape(as::matmul(op).lhs(), {a.elements() / a.back(), a.back()});
  Value* matrix = builder.reshape(as::matmul(op).rhs(), {b[b.rank() - 2], b.back()});
  Value* out = builder.reshape(builder.op(Opcode::matmul, {rows, matrix}, op.attrs), op.result()->type.shape);
  out->name = op.result()->name;
  return out;
}

/// The type to which the only reader of a value, looked at through reshapes, casts it; nothing if it does not.
static std::optional<DType> roundedTo(const Value& value) {
  if (!value.uses.hasOne()) return {};
  const Op& reader = *value.uses.begin()->user();
  if (reader.code == Opcode::reshape) return roundedTo(*reader.result());
  if (reader.code != Opcode::cast || !isNarrow(reader.result()->type.dtype)) return {};
  return reader.result()->type.dtype;
}

/// Whether elementwise ops, other than casts, read a value or reshapes of it.
static bool hasEpilogue(const Value& value) {
  return std::ranges::any_of(value.uses, [](const Use& use) {
    const Op& reader = *use.user();
    if (reader.code == Opcode::reshape) return hasEpilogue(*reader.result());
    return keepsElements(reader) && reader.code != Opcode::cast;
  });
}

bool wantsFlatColumns(const Op& op, const Target& target) {
  if (op.code != Opcode::matmul) return false;
  const std::optional<DType> factor = dtypeNamed(as::matmul(op).precision());
  if (!factor || !isNarrow(*factor) || !target.multiplies(*factor)) return false;
  const Type &lhs = as::matmul(op).lhs()->type, &rhs = as::matmul(op).rhs()->type, &out = op.result()->type;
  const int64_t columns = out.shape.back(), rows = out.shape[out.rank() - 2];
  const int64_t inner = lhs.elements() / rows;
  const int64_t all = divideCeil(rows, kMatrixRows) * (rhs.elements() / inner);
  const bool large = 2 * all >= target.units() * kMatrixColumns;
  const int64_t block = large ? kMatrixColumns : kFullRows, filled = alignTo(columns, block);
  const bool oneMatrix = lhs.shape.back() * lhs.shape[lhs.rank() - 2] == lhs.elements();
  const double share = hasEpilogue(*op.result()) && inner < kManyTerms ? kHalfColumns : kFullColumns;
  return oneMatrix && rhs.elements() == out.elements() / rows * inner && out.elements() > rows * columns &&
         columns < share * static_cast<double>(filled) && rows >= kMatrixSide &&
         factorOf(*as::matmul(op).lhs()) == *factor && factorOf(*as::matmul(op).rhs()) == *factor;
}

Value* flatColumns(Builder& builder, const Op& op) {
  const as::matmul product(op);
  const Shape &a = product.lhs()->type.shape, &b = product.rhs()->type.shape, &out = op.result()->type.shape;
  const int64_t rows = out[out.rank() - 2], columns = out.back();
  const int64_t count = out.elements() / (rows * columns), inner = a.elements() / rows;
  Value* left = builder.reshape(product.lhs(), {a[a.rank() - 2], a.back()});
  Value* right = product.rhs();
  if (product.transpose_b())
    right = builder.reshape(right, {count * b[b.rank() - 2], inner});
  else
    right = builder.reshape(builder.transpose(builder.reshape(right, {count, inner, columns}), {1, 0, 2}),
                            {inner, count * columns});
  Value* flat = builder.op(Opcode::matmul, {left, right}, op.attrs);
  if (const std::optional<DType> narrow = roundedTo(*op.result()))
    flat = builder.cast(builder.cast(flat, *narrow), flat->type.dtype);
  Value* view = builder.transpose(builder.reshape(flat, {rows, count, columns}), {1, 0, 2});
  Value* all = builder.reshape(view, out);
  all->name = op.result()->name;
  return all;
}

namespace {

class ProductSplitter {
 public:
  ProductSplitter(Builder& builder, const Target& target) : builder_(builder), target_(target) {}

  Value* split(const Op& op) {
    const Shape &a = op.in(0)->type.shape, &out = op.result()->type.shape;
    bool ta = as::matmul(op).transpose_a(), tb = as::matmul(op).transpose_b();
    int64_t inner = a[a.rank() - (ta ? 2 : 1)];
    const int64_t m = out[out.rank() - 2], n = out.back();
    const bool isGpu = target_.matmul == "shared", narrow = std::min(m, n) < kLeastSharedSide;
    if (inner <= longest(op) || out.rank() == kMaxRank) return nullptr;
    int64_t wanted = target_.parallel * kTileElements / out.elements();
    int64_t least = isGpu && narrow ? kLeastNarrowPiece : kLeastPiece;
    if (isGpu && !narrow) {
      // As many slices as give each processor kBlocksPerUnit small blocks.
      int64_t blocks = out.elements() / (m * n) * divideCeil(m, kSmallBlock) * divideCeil(n, kSmallBlock);
      wanted = kBlocksPerUnit * target_.units() / blocks + 1;
      least = inner <= kLongestLoop ? kLeastIdlePiece : kLeastSharedPiece;
    }
    Pieces pieces = piecesUpTo(inner, std::max<int64_t>(1, std::min(wanted, inner / least)));
    auto even = [&](int64_t count) { pieces = {count, inner / count}; };
    // A short f32x3 product is cut as that of f32 is, so that its sums are about as exact.
    if (isSplit(op) && target_.multiplies(DType::f16) && inner > kLongestLoop)
      even(fewestIdle(out, inner, 1, inner, {kHalvedSide, kHalvedSide, kStoreHalvedPiece}));
    else if (readsNarrow(op))
      even(fastestCount(out, inner, !ta || tb));
    else if (target_.matmul == "shared" && !pieces.missing(inner) && !sharesSteps(out, pieces.count))
      even(fewestIdle(out, inner, pieces.count, kMostPieces * pieces.count,
                      {kBlockRows, kBlockColumns, kStorePiece}));
    if (pieces.count < 2) return nullptr;
    Value* parts = builder_.op(
        Opcode::matmul, {pieced(as::matmul(op).lhs(), pieces, ta), pieced(as::matmul(op).rhs(), pieces, !tb)},
        {{"transpose_a", Attr::boolean(ta)},
         {"transpose_b", Attr::boolean(tb)},
         {"precision", op.attr("precision")}});
    return builder_.reduce(Opcode::sum, parts, {out.rank() - 2}, false);
  }

 private:
  /// The longest inner axis of a product that stays whole. It is shorter for a product that leaves most processors idle,
  /// unless that is the gradient of a weight (the sum over rows), which no other kernel waits for.
  int64_t longest(const Op& op) const {
    const Shape& out = op.result()->type.shape;
    if (target_.matmul != "shared") return kLongestLoop;
    if (std::min(out[out.rank() - 2], out.back()) < kLeastSharedSide) return kLongestNarrow;
    return leavesIdle(op) ? kLongestIdle : kLongestLoop;
  }

  /// Whether a product leaves most processors idle and other kernels wait for it.
  bool leavesIdle(const Op& op) const {
    const int64_t busy = Blocking{kLeastBlock, kLeastBlock, 0}.blocks(op.result()->type.shape);
    return !as::matmul(op).transpose_a() && kIdleShare * busy <= target_.units();
  }

  /// Whether matrix units compute a product whose operands have 16 bits in memory.
  bool readsNarrow(const Op& op) const {
    const std::string precision = as::matmul(op).precision();
    const DType narrow = precision == "bf16" ? DType::bf16 : DType::f16;
    const Shape& out = op.result()->type.shape;
    const bool fills = std::min(out[out.rank() - 2], out.back()) >= kMatrixSide;
    if (precision == "f32" || isSplit(op) || !target_.multiplies(narrow) || !fills) return false;
    return std::ranges::all_of(op.operands,
                               [&](const Operand& operand) { return factorOf(*operand.value) == narrow; });
  }

  struct Blocking {
    int64_t rows, columns;
    double storePiece;
    int64_t blocks(const Shape& out) const {
      const int64_t m = out[out.rank() - 2], n = out.back();
      return out.elements() / (m * n) * divideCeil(m, rows) * divideCeil(n, columns);
    }
  };

  /// Whether a product has too few large blocks to keep the device busy. It then gets small blocks, whose invocations share
  /// the steps along the inner axis in slices.
  bool sharesSteps(const Shape& out, int64_t pieces) const {
    return Blocking{kBlockRows, kBlockColumns, 0}.blocks(out) * pieces < 2 * target_.units();
  }

  /// The number of slices, from `pieces` to `most`, with which a product of large blocks takes the least time. The estimate:
  /// the last round of workgroups leaves processors idle, and the results of slices must be stored and added.
  int64_t fewestIdle(const Shape& out, int64_t inner, int64_t pieces, int64_t most,
                     const Blocking& blocking) const {
    const int64_t units = target_.units(), blocks = blocking.blocks(out);
    auto cost = [&](int64_t count) {
      int64_t groups = blocks * count;
      double rounds = static_cast<double>(alignTo(groups, units)) / static_cast<double>(groups);
      const double stored = blocking.storePiece * static_cast<double>(count) / static_cast<double>(inner);
      return rounds + (count > 1 ? stored : 0);
    };
    int64_t best = pieces;
    for (int64_t count = pieces + 1; count <= std::min(most, inner / kShortestPiece); ++count)
      if (inner % count == 0 && cost(count) < kWorthwhile * cost(best)) best = count;
    return best;
  }

  /// The number of slices with which a product of 16-bit operands and the sum of its slices take the least estimated time.
  /// If an operand lies along k, slices begin at multiples of 16 bytes if the whole does.
  int64_t fastestCount(const Shape& out, int64_t inner, bool alongK) const {
    const int64_t m = out[out.rank() - 2], n = out.back(), batch = out.elements() / (m * n);
    auto time = [&](int64_t count) {
      const double product = narrowProductTime({m, n, inner / count, batch * count}, target_);
      const double bytes = static_cast<double>(count * out.elements()) * sizeof(float);
      return product + (count > 1 ? kSumOfPieces + bytes / kSummedBytes : 0);
    };
    auto aligned = [&](int64_t count) {
      return !alongK || inner % kVector != 0 || inner / count % kVector == 0;
    };
    int64_t best = 1;
    for (int64_t count = 2; count <= inner / kShortestPiece; ++count)
      if (inner % count == 0 && aligned(count) && time(count) < kWorthwhile * time(best)) best = count;
    return best;
  }

  /// A factor as a view in which the inner axis, the last but one (`innerFirst`) or the last, is cut into slices, and the
  /// slices are an axis in front of the matrix.
  Value* pieced(Value* x, const Pieces& pieces, bool innerFirst) {
    const int lead = x->type.rank() - 2, inner = lead + (innerFirst ? 0 : 1);
    x = filled(builder_, x, inner, pieces.missing(x->type.shape[inner]));
    Shape shape = x->type.shape;
    const int64_t rows = shape[lead], columns = shape[lead + 1];
    shape.resize(lead);
    std::vector<int64_t> perm = allAxes(lead + 3);
    for (int64_t extent : innerFirst ? std::array<int64_t, 3>{pieces.count, pieces.width, columns}
                                     : std::array<int64_t, 3>{rows, pieces.count, pieces.width})
      shape.push(extent);
    Value* cut = builder_.reshape(x, shape);
    if (innerFirst) return cut;
    std::swap(perm[static_cast<size_t>(lead)], perm[static_cast<size_t>(lead) + 1]);
    return builder_.transpose(cut, perm);
  }

  Builder& builder_;
  const Target& target_;
};

}  // namespace

Value* splitProduct(Builder& builder, const Op& op, const Target& target) {
  return ProductSplitter(builder, target).split(op);
}

}  // namespace tg::fuse
