// SPDX-License-Identifier: Apache-2.0
// Attention of 16 bits by matrix units, without its matrix of scores. Each subgroup holds some rows of its own
// side as matrices and walks the rows of the other side, which the workgroup brings to shared memory block by
// block. Scores stay in registers: what a subgroup has of them as an accumulator becomes, rounded, the operand A
// of the next product. One code is the forward pass and both gradients:
//
//              own side   other side   scores       results
//   forward    q          k, v         q·kᵀ         o += p·v, p = 2^(s·c - m), m the running maximum
//   grad of q  q, do      k, v         q·kᵀ, do·vᵀ  dq += ds·k
//   grad of kv k, v       q, do        k·qᵀ, v·doᵀ  dk += ds·q, dv += p·do
//
// with c = scale·log₂e, and p = 2^(s·c - lse·log₂e), ds = p·(do·vᵀ - δ)·scale in the gradients. A step:
//
//   store the block's rows, which the step before has loaded into registers; barrier; load the next block's
//   scores, p, ds, results; barrier
//
// Blocks that a causal mask hides lie outside the loops' bounds; those that it cuts, and the last one where its
// rows are fewer, are a loop of their own, in which hidden scores get a large negative term. Forward: Milakov
// and Gimelshein 2018, Dao et al. 2022 and 2023.

#include <cmath>
#include <numbers>
#include <span>

#include "codegen/lower_attention.h"
#include "codegen/product_tiles.h"
#include "codegen/schedule_attention_coopmat.h"
#include "ir/op_view.h"

namespace tg {
namespace {

constexpr int64_t kSide = AttentionFragments::kSide;
constexpr double kHidden = 1e30;  ///< subtracted from a masked score

using Matrices = std::vector<KV>;

class CoopmatAttention {
 public:
  CoopmatAttention(LowerContext& c, const AttentionRegion& region, const AttentionFragments& fragments);
  void emit(const Index& group);

 private:
  /// A result, as accumulators of the subgroup's rows, row by row of them.
  struct Sum {
    int result = 0;
    int64_t width = 0;
    bool fromGrad = false;  ///< the factor is the second of the other side's operands
  };

  bool isForward() const { return r_.op->code == Opcode::attention; }
  int64_t ownRows() const { return forKeys_ ? r_.keys : r_.queries; }
  int64_t otherRows() const { return forKeys_ ? r_.queries : r_.keys; }
  int64_t down() const { return f_.warp / kSide; }
  int64_t widthOf(int which) const { return r_.op->in(which)->type.shape.back(); }
  Type matrix(MatrixUse use) const {
    return Type::coopmat(use == MatrixUse::acc ? DType::f32 : narrow_, kSide, kSide, use);
  }
  KV zero() { return kernel_.coopmatSplat(0, matrix(MatrixUse::acc)); }
  KV exp2(const KV& x) { return kernel_.op(Opcode::k_exp2, {x}, DType::f32); }
  KV sub(const KV& a, const KV& b) { return kernel_.op(Opcode::k_sub, {a, b}, DType::f32); }
  KV at(const Index& index) { return c_.space.materialize(index); }
  Index plus(const Index& index, int64_t by) { return c_.space.add(index, IndexSpace::constant(by)); }
  Index inside(const Index& index, int64_t count) { return c_.emitter.below(index, count).second; }

  KV words(int which, const Index& row, const Index& eight);
  KV number(int which, const Index& row);
  std::vector<KV> loadRows(int which, const Index& first, int64_t count, int64_t extent);
  void storeRows(std::span<const KV> loaded, int which, int64_t count, int64_t firstRow);
  Matrices ownMatrices(int which);
  std::vector<KV> loadBlock(const KV& round);
  void storeBlock(std::span<const KV> loaded);
  KV scaledNumber(int which, const Index& row);
  void stageNumbers(const Index& first, int64_t count, int64_t extent);

  /// The products of own rows i and 16 rows of the block from `column` on.
  Matrices scores(const Matrices& own, int64_t column, bool grad);
  void hide(KV& score, int64_t i, int64_t column, const KV& round);
  void addProducts(const Sum& sum, const Matrices& weights, int64_t column, std::span<KV> acc);
  void forwardStep(std::span<KV> state, const KV& round, bool masked);
  void gradientStep(std::span<KV> state, const KV& round, bool masked);
  std::vector<KV> steps(const KV& from, const KV& to, bool masked, std::vector<KV> carried);
  std::pair<KV, KV> wholeBlocks(const KV& from, const KV& to);

  void finish(std::span<KV> state);
  void storeMatrix(const KV& matrix, int64_t i,
                   const std::function<void(const Index& row, const Index& cell)>& body);
  void storeSum(const Sum& sum, std::span<const KV> acc);
  void storeStatistics(std::span<const KV> lse);

  LowerContext& c_;
  KernelBuilder& kernel_;
  const AttentionRegion& r_;
  const AttentionFragments& f_;
  const bool forKeys_;
  const DType narrow_;
  const double scale_, c2_;  ///< c2_ is c above
  const int64_t otherBlocks_;
  int own_[2], other_[2];  ///< operands: for the scores, and for their gradients
  int64_t pitch_;
  Index lane_, batch_, first_, warpRow_;
  KV subgroup_;
  Indices lead_;
  Value *rows_, *patch_, *lse_ = nullptr, *delta_ = nullptr;
  Matrices ownScore_, ownGrad_, lseRows_, deltaRows_;
  std::vector<Sum> sums_;
};

CoopmatAttention::CoopmatAttention(LowerContext& c, const AttentionRegion& region,
                                   const AttentionFragments& fragments)
    : c_(c), kernel_(c.kernel), r_(region), f_(fragments),
      forKeys_(region.op->code == Opcode::attention_grad_kv),
      narrow_(*dtypeNamed(as::attention(*region.op).precision())), scale_(region.scale.number),
      c2_(scale_ * std::numbers::log2e), otherBlocks_((otherRows() + fragments.block - 1) / fragments.block),
      pitch_(AttentionFragments::pitch(*region.op)) {
  constexpr int kQ = 0, kK = 1, kV = 2, kDo = 5;
  own_[0] = forKeys_ ? kK : kQ, own_[1] = forKeys_ ? kV : kDo;
  other_[0] = forKeys_ ? kQ : kK, other_[1] = forKeys_ ? kDo : kV;
  if (isForward()) {
    sums_ = {{0, widthOf(kV), true}};
  } else {
    sums_ = {{0, widthOf(kQ), false}};
    if (forKeys_) sums_.push_back({1, widthOf(kV), true});
  }
  lane_ = c.space.variable(kernel_.id(Opcode::k_local_id, 0), f_.invocations());
  subgroup_ = kernel_.subgroup(Opcode::k_subgroup_id);
  warpRow_ = c.space.scale(c.space.variable(subgroup_, f_.subgroups()), f_.warp);
  rows_ =
      kernel_.sharedBuffer(Type::buffer(DType::u32, kLanes, {f_.staged(), pitch_}, BufMode::shared), "rows");
  patch_ = kernel_.sharedBuffer(
      Type::buffer(DType::f32, 1, {f_.subgroups() * kSide, AttentionFragments::kPatch}, BufMode::shared),
      "patch");
  if (isForward()) return;
  const int64_t count = forKeys_ ? f_.block : f_.rows;
  lse_ = kernel_.sharedBuffer(Type::buffer(DType::f32, 1, {count}, BufMode::shared), "lse");
  delta_ = kernel_.sharedBuffer(Type::buffer(DType::f32, 1, {count}, BufMode::shared), "delta");
}

/// Eight neighbours of a row of an operand, as 16 bits.
KV CoopmatAttention::words(int which, const Index& row, const Index& eight) {
  Indices first = lead_;
  first.push_back(row);
  first.push_back(c_.space.add(c_.space.scale(eight, kEight), IndexSpace::lane()));
  Indices second = first;
  second.back() = plus(first.back(), kLanes);
  const Value* operand = r_.op->in(which);
  if (auto whole = c_.emitter.words(operand, narrow_, first, second)) return *whole;
  const Type four = Type::scalar(DType::f32, kLanes);
  return packedWords(kernel_, narrow_, kernel_.widened(c_.emitter.emit(operand, first), four),
                     kernel_.widened(c_.emitter.emit(operand, second), four));
}

/// The log-sum-exp of a query, times log₂e, or its δ, times the scale.
KV CoopmatAttention::number(int which, const Index& row) {
  constexpr int kLse = 3;
  Indices index = lead_;
  index.push_back(row);
  return kernel_.mul(c_.emitter.emit(r_.op->in(which), index),
                     KernelBuilder::f32(which == kLse ? std::numbers::log2e : scale_));
}

/// This invocation's share of so many rows; rows behind the operand's end repeat one of it.
std::vector<KV> CoopmatAttention::loadRows(int which, const Index& first, int64_t count, int64_t extent) {
  std::vector<KV> out;
  const int64_t eights = widthOf(which) / kEight;
  StagingTasks(c_, count * eights, f_.invocations(), lane_).load([&](const Index& task) {
    const Index row = inside(c_.space.add(first, c_.space.div(task, eights)), extent);
    out.push_back(words(which, row, c_.space.mod(task, eights)));
  });
  return out;
}

void CoopmatAttention::storeRows(std::span<const KV> loaded, int which, int64_t count, int64_t firstRow) {
  const int64_t eights = widthOf(which) / kEight;
  size_t next = 0;
  StagingTasks(c_, count * eights, f_.invocations(), lane_).store([&](const Index& task) {
    kernel_.store(
        loaded[next++], rows_,
        std::vector<KV>{at(plus(c_.space.div(task, eights), firstRow)), at(c_.space.mod(task, eights))});
  });
}

/// The subgroup's rows of an operand of its own side, by way of shared memory.
Matrices CoopmatAttention::ownMatrices(int which) {
  storeRows(loadRows(which, first_, f_.rows, ownRows()), which, f_.rows, 0);
  kernel_.barrier();
  Matrices out;
  for (int64_t i = 0; i < down(); ++i)
    for (int64_t deep = 0; deep < widthOf(which); deep += kSide)
      out.push_back(kernel_.coopmatLoad(rows_,
                                        {at(plus(warpRow_, i * kSide)), KernelBuilder::u32(deep / kEight)},
                                        matrix(MatrixUse::a), false));
  kernel_.barrier();
  return out;
}

/// What the next step stores: rows of both operands, and the queries' numbers where these are the other side.
std::vector<KV> CoopmatAttention::loadBlock(const KV& round) {
  const Index first = c_.space.scale(c_.space.variable(round, otherBlocks_), f_.block);
  std::vector<KV> out;
  for (int which : other_)
    for (const KV& each : loadRows(which, first, f_.block, otherRows())) out.push_back(each);
  if (!forKeys_) return out;
  StagingTasks(c_, f_.block, f_.invocations(), lane_).load([&](const Index& task) {
    const auto [there, row] = c_.emitter.below(c_.space.add(first, task), otherRows());
    out.push_back(kernel_.select(there, number(3, row), KernelBuilder::f32(kHidden)));
    out.push_back(number(4, row));
  });
  return out;
}

void CoopmatAttention::storeBlock(std::span<const KV> loaded) {
  for (int operand = 0; operand < 2; ++operand) {
    const int64_t cells = f_.block * widthOf(other_[operand]) / kEight;
    const auto count = static_cast<size_t>((cells + f_.invocations() - 1) / f_.invocations());
    storeRows(loaded.first(count), other_[operand], f_.block, operand * f_.block);
    loaded = loaded.subspan(count);
  }
  size_t next = 0;
  if (forKeys_)
    StagingTasks(c_, f_.block, f_.invocations(), lane_).store([&](const Index& task) {
      kernel_.store(loaded[next], lse_, at(task));
      kernel_.store(loaded[next + 1], delta_, at(task));
      next += 2;
    });
}

Matrices CoopmatAttention::scores(const Matrices& own, int64_t column, bool grad) {
  const int64_t steps = static_cast<int64_t>(own.size()) / down();
  Matrices out(static_cast<size_t>(down()), zero());
  for (int64_t deep = 0; deep < steps; ++deep) {
    const KV factor = kernel_.coopmatLoad(
        rows_,
        {KernelBuilder::u32((grad ? f_.block : 0) + column), KernelBuilder::u32(deep * kSide / kEight)},
        matrix(MatrixUse::b), true);
    for (int64_t i = 0; i < down(); ++i)
      out[static_cast<size_t>(i)] =
          kernel_.coopmatMma(own[static_cast<size_t>(i * steps + deep)], factor, out[static_cast<size_t>(i)]);
  }
  return out;
}

/// Masks scores: keys behind the query, where causal, and keys behind the end get a large negative term.
void CoopmatAttention::hide(KV& score, int64_t i, int64_t column, const KV& round) {
  const KV none = KernelBuilder::f32(0), most = KernelBuilder::f32(kHidden);
  const Index other = plus(c_.space.scale(c_.space.variable(round, otherBlocks_), f_.block), column);
  const Index own = plus(c_.space.add(first_, warpRow_), i * kSide);
  const Type type = matrix(MatrixUse::acc);
  auto real = [&](const Index& index) { return kernel_.cast(at(index), DType::f32); };
  auto below = [&](const KV& slack) {
    score = kernel_.fma(kernel_.op(Opcode::k_min, {slack, none}, DType::f32), most, score);
  };
  if (r_.causal) {  // key <= query + ahead
    const KV ahead = KernelBuilder::f32(static_cast<double>(r_.keys - r_.queries));
    const KV from = sub(real(forKeys_ ? other : own), real(forKeys_ ? own : other));
    const KV within = sub(kernel_.coopmatIndex(type, forKeys_), kernel_.coopmatIndex(type, !forKeys_));
    below(kernel_.add(within, kernel_.add(from, ahead)));
  }
  if (otherRows() % f_.block != 0 && !forKeys_)
    below(sub(sub(KernelBuilder::f32(static_cast<double>(otherRows() - 1)), real(other)),
              kernel_.coopmatIndex(type, true)));
}

/// Adds the products of weights, an A each, and 16 rows of the block.
void CoopmatAttention::addProducts(const Sum& sum, const Matrices& weights, int64_t column,
                                   std::span<KV> acc) {
  const int64_t across = sum.width / kSide;
  for (int64_t j = 0; j < across; ++j) {
    const KV factor = kernel_.coopmatLoad(
        rows_,
        {KernelBuilder::u32((sum.fromGrad ? f_.block : 0) + column), KernelBuilder::u32(j * kSide / kEight)},
        matrix(MatrixUse::b), false);
    for (int64_t i = 0; i < down(); ++i) {
      KV& each = acc[static_cast<size_t>(i * across + j)];
      each = kernel_.coopmatMma(weights[static_cast<size_t>(i)], factor, each);
    }
  }
}

/// State: the rows' maxima, the sums of what each element has seen, the mixture.
void CoopmatAttention::forwardStep(std::span<KV> state, const KV& round, bool masked) {
  const auto rows = static_cast<size_t>(down());
  const std::span<KV> largest = state.first(rows), total = state.subspan(rows, rows),
                      acc = state.subspan(2 * rows);
  const KV c2 = KernelBuilder::f32(c2_);
  std::vector<Matrices> s;
  for (int64_t column = 0; column < f_.block; column += kSide) {
    s.push_back(scores(ownScore_, column, false));
    for (int64_t i = 0; masked && i < down(); ++i) hide(s.back()[static_cast<size_t>(i)], i, column, round);
  }
  const size_t across = acc.size() / rows;
  for (size_t i = 0; i < rows; ++i) {
    KV top = s[0][i];
    for (size_t j = 1; j < s.size(); ++j) top = kernel_.op(Opcode::k_max, {top, s[j][i]}, DType::f32);
    top = kernel_.op(Opcode::k_max, {largest[i], kernel_.coopmatRowReduce(top, "max")}, DType::f32);
    const KV shrink = exp2(kernel_.mul(sub(largest[i], top), c2)),
             down = kernel_.mul(top, KernelBuilder::f32(-c2_));
    largest[i] = top;
    total[i] = kernel_.mul(total[i], shrink);
    for (Matrices& each : s) {
      each[i] = exp2(kernel_.fma(each[i], c2, down));
      total[i] = kernel_.add(total[i], each[i]);
    }
    for (size_t j = 0; j < across; ++j) acc[i * across + j] = kernel_.mul(acc[i * across + j], shrink);
  }
  for (size_t j = 0; j < s.size(); ++j) {
    Matrices weights;
    for (const KV& p : s[j]) weights.push_back(kernel_.coopmatConvert(p, matrix(MatrixUse::a)));
    addProducts(sums_[0], weights, static_cast<int64_t>(j) * kSide, acc);
  }
}

/// State: the results.
void CoopmatAttention::gradientStep(std::span<KV> state, const KV& round, bool masked) {
  const Type type = matrix(MatrixUse::acc);
  for (int64_t column = 0; column < f_.block; column += kSide) {
    const Matrices s = scores(ownScore_, column, false), dp = scores(ownGrad_, column, true);
    Matrices p, ds;
    for (int64_t i = 0; i < down(); ++i) {
      const auto row = static_cast<size_t>(i);
      const KV start = KernelBuilder::u32(column);
      const KV lse = forKeys_ ? kernel_.coopmatRepeat(lse_, start, type, true) : lseRows_[row];
      const KV delta = forKeys_ ? kernel_.coopmatRepeat(delta_, start, type, true) : deltaRows_[row];
      KV score = s[row];
      if (masked) hide(score, i, column, round);
      const KV each = exp2(sub(kernel_.mul(score, KernelBuilder::f32(c2_)), lse));
      const KV grad = kernel_.mul(each, sub(kernel_.mul(dp[row], KernelBuilder::f32(scale_)), delta));
      ds.push_back(kernel_.coopmatConvert(grad, matrix(MatrixUse::a)));
      if (forKeys_) p.push_back(kernel_.coopmatConvert(each, matrix(MatrixUse::a)));
    }
    for (const Sum& sum : sums_) {
      const auto size = static_cast<size_t>(down() * sum.width / kSide);
      addProducts(sum, sum.fromGrad ? p : ds, column, sum.result == 0 ? state.first(size) : state.last(size));
    }
  }
}

/// Steps from one block to another. They carry what is loaded for the next, then the state.
std::vector<KV> CoopmatAttention::steps(const KV& from, const KV& to, bool masked, std::vector<KV> carried) {
  const KV last = KernelBuilder::u32(otherBlocks_ - 1);
  kernel_.hint("block");
  kernel_.rolled();
  return kernel_.loop(kernel_.depth(), from, to, 1, carried, [&](const KV& round, std::vector<KV> now) {
    // The last step loads its own rows again: a branch would wait for the loads.
    const KV next = kernel_.op(Opcode::k_min, {kernel_.add(round, KernelBuilder::u32(1)), last}, DType::u32);
    size_t loads = now.size();
    for (const Sum& sum : sums_) loads -= static_cast<size_t>(down() * sum.width / kSide);
    if (isForward()) loads -= 2 * static_cast<size_t>(down());
    storeBlock(std::span(now).first(loads));
    kernel_.barrier();
    const std::vector<KV> loaded = loadBlock(next);
    const std::span<KV> state = std::span(now).subspan(loads);
    if (isForward())
      forwardStep(state, round, masked);
    else
      gradientStep(state, round, masked);
    kernel_.barrier();
    std::copy(loaded.begin(), loaded.end(), now.begin());
    return now;
  });
}

/// The blocks of from..to that the mask leaves whole: the first ones, or, where rows are keys, the last ones.
std::pair<KV, KV> CoopmatAttention::wholeBlocks(const KV& from, const KV& to) {
  auto u32 = [&](Opcode code, const KV& a, int64_t b) {
    return kernel_.op(code, {a, KernelBuilder::u32(b)}, DType::u32);
  };
  auto between = [&](const KV& x) {
    return kernel_.op(Opcode::k_max, {from, kernel_.op(Opcode::k_min, {x, to}, DType::u32)}, DType::u32);
  };
  const int64_t ahead = r_.keys - r_.queries;
  if (forKeys_) {
    if (!r_.causal) return {from, to};
    // The first block of queries that see the tile's last key.
    const KV key = at(plus(first_, f_.rows - 1));
    const KV query = u32(Opcode::k_sub, u32(Opcode::k_max, key, ahead), ahead);
    return {between(u32(Opcode::k_div, u32(Opcode::k_add, query, f_.block - 1), f_.block)), to};
  }
  KV whole = KernelBuilder::u32(otherRows() / f_.block);
  if (r_.causal) {  // the keys that the tile's first query sees
    const KV seen = u32(Opcode::k_div, at(plus(first_, 1 + ahead)), f_.block);
    whole = kernel_.op(Opcode::k_min, {whole, seen}, DType::u32);
  }
  return {from, between(whole)};
}

/// Stores a matrix of the subgroup to its patch and calls body(row, half) in every invocation: it takes the left or the
/// right eight columns of a row, given by its place on the own side. Rows behind the end are left out.
void CoopmatAttention::storeMatrix(const KV& matrix, int64_t i,
                                   const std::function<void(const Index& row, const Index& cell)>& body) {
  kernel_.coopmatStore(matrix, patch_,
                       {kernel_.mul(subgroup_, KernelBuilder::u32(kSide)), KernelBuilder::u32(0)});
  kernel_.barrier();
  const Index own = c_.space.mod(lane_, f_.subgroup), warp = c_.space.div(lane_, f_.subgroup);
  const Index row = c_.space.div(own, 2);
  const Index place = plus(c_.space.add(first_, c_.space.add(c_.space.scale(warp, f_.warp), row)), i * kSide);
  c_.emitter.whereInside(place, ownRows(), IndexSpace::constant(0), 1,
                         [&](const Index& in, const Index&) { body(in, c_.space.mod(own, 2)); });
  kernel_.barrier();
}

void CoopmatAttention::storeSum(const Sum& sum, std::span<const KV> acc) {
  const Value* value = r_.op->result(sum.result);
  const int64_t across = sum.width / kSide;
  const KV patchRow = at(c_.space.div(lane_, 2));
  for (int64_t i = 0; i < down(); ++i)
    for (int64_t j = 0; j < across; ++j)
      storeMatrix(acc[static_cast<size_t>(i * across + j)], i, [&](const Index& row, const Index& cell) {
        const Index column = c_.space.scale(cell, kEight);
        const Index start =
            plus(c_.space.scale(c_.space.add(c_.space.scale(batch_, ownRows()), row), sum.width), j * kSide);
        KV fours[2];
        for (int64_t half = 0; half < 2; ++half) {
          std::vector<KV> lanes;
          for (int64_t lane = 0; lane < kLanes; ++lane)
            lanes.push_back(kernel_.loadHere(patch_, {patchRow, at(plus(column, half * kLanes + lane))}));
          fours[half] = kernel_.vec(lanes);
        }
        const Index offset = c_.space.add(c_.space.add(start, column), IndexSpace::lane());
        storeAttention(c_, value, offset, fours[0], &fours[1]);
      });
}

/// Each row's number stands in every column.
void CoopmatAttention::storeStatistics(std::span<const KV> lse) {
  const KV patchRow = at(c_.space.div(lane_, 2));
  for (int64_t i = 0; i < down(); ++i)
    storeMatrix(lse[static_cast<size_t>(i)], i, [&](const Index& row, const Index& cell) {
      const KV first = kernel_.op(Opcode::k_eq, {at(cell), KernelBuilder::u32(0)}, DType::i1);
      kernel_.guard(first, [&] {
        const KV number = kernel_.loadHere(patch_, {patchRow, KernelBuilder::u32(0)});
        storeAttention(c_, r_.op->result(1), c_.space.add(c_.space.scale(batch_, ownRows()), row), number);
      });
    });
}

void CoopmatAttention::finish(std::span<KV> state) {
  if (!isForward()) {
    for (const Sum& sum : sums_) {
      const auto size = static_cast<size_t>(down() * sum.width / kSide);
      storeSum(sum, sum.result == 0 ? state.first(size) : state.last(size));
    }
    return;
  }
  const auto rows = static_cast<size_t>(down());
  const size_t across = static_cast<size_t>(sums_[0].width / kSide);
  std::vector<KV> lse;
  for (size_t i = 0; i < rows; ++i) {
    const KV total = kernel_.coopmatRowReduce(state[rows + i], "add");
    const KV share = kernel_.op(Opcode::k_reciprocal, {total}, DType::f32);
    for (size_t j = 0; j < across; ++j) {
      KV& each = state[2 * rows + i * across + j];
      each = kernel_.mul(each, share);
    }
    lse.push_back(
        kernel_.fma(state[i], KernelBuilder::f32(scale_), kernel_.op(Opcode::k_log, {total}, DType::f32)));
  }
  storeSum(sums_[0], state.subspan(2 * rows));
  if (r_.op->results.size() > 1) storeStatistics(lse);
}

void CoopmatAttention::emit(const Index& group) {
  batch_ = c_.space.mod(group, r_.batch);
  first_ = r_.firstRow(c_, group, f_.rows, forKeys_);
  lead_ = c_.space.delinear(batch_, r_.lead);
  const Type type = matrix(MatrixUse::acc);
  ownScore_ = ownMatrices(own_[0]);
  if (!isForward()) ownGrad_ = ownMatrices(own_[1]);
  if (!isForward() && !forKeys_) {
    StagingTasks(c_, f_.rows, f_.invocations(), lane_).store([&](const Index& task) {
      const Index row = inside(c_.space.add(first_, task), ownRows());
      kernel_.store(number(3, row), lse_, at(task));
      kernel_.store(number(4, row), delta_, at(task));
    });
    kernel_.barrier();
    for (int64_t i = 0; i < down(); ++i) {
      lseRows_.push_back(kernel_.coopmatRepeat(lse_, at(plus(warpRow_, i * kSide)), type, false));
      deltaRows_.push_back(kernel_.coopmatRepeat(delta_, at(plus(warpRow_, i * kSide)), type, false));
    }
  }
  const auto [from, to] = r_.blocks(c_, first_, f_.rows, f_.block, forKeys_);
  const auto [begin, end] = wholeBlocks(from, to);
  const KV last = KernelBuilder::u32(otherBlocks_ - 1);
  std::vector<KV> carried = loadBlock(kernel_.op(Opcode::k_min, {from, last}, DType::u32));
  const size_t loads = carried.size();
  if (isForward()) {
    carried.resize(loads + static_cast<size_t>(down()), kernel_.coopmatSplat(-kHidden, type));
    carried.resize(carried.size() + static_cast<size_t>(down()), zero());
  }
  for (const Sum& sum : sums_)
    carried.resize(carried.size() + static_cast<size_t>(down() * sum.width / kSide), zero());
  const bool cut = r_.causal || (!forKeys_ && otherRows() % f_.block != 0);
  if (forKeys_ && cut) carried = steps(from, begin, true, carried);
  carried = steps(begin, end, false, carried);
  if (!forKeys_ && cut) carried = steps(end, to, true, carried);
  finish(std::span(carried).subspan(loads));
}

}  // namespace

Result<void> lowerKernel(LowerContext& c, const CoopmatAttentionSchedule& schedule) {
  return lowerByGroups<CoopmatAttention>(c, AttentionFragments(schedule, c.target));
}

}  // namespace tg
