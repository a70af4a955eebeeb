// SPDX-License-Identifier: Apache-2.0
// Attention and its two gradients without a matrix of scores in memory. This is the loop that all lowerings of
// attention share, whatever holds the scores: registers of an invocation, shared memory, or cooperative matrices.
// An invocation or a workgroup holds some rows of its own side and walks over the rows of the other side block by
// block:
//
//              own side   other side   scores       results
//   forward    q          k, v         q·kᵀ         o += p·v, p = e^(s - running maximum)
//   grad of q  q, do      k, v         q·kᵀ, do·vᵀ  dq += ds·k
//   grad of kv k, v       q, do        k·qᵀ, v·doᵀ  dk += ds·q, dv += p·do
//
// with p = e^(s - lse) and ds = p·(do·vᵀ - delta) in the gradients. A bias is added to the scores; where the keep drops a
// weight, p in o and dv, and do·vᵀ, are 0. In the forward pass the softmax is computed
// online (Milakov and Gimelshein 2018, Dao et al. 2022): a running maximum m, the sum l of the weights and the
// weighted sum o are rescaled by e^(m_old - m) when a block raises the maximum; at the end o is divided by l.
// Blocks that a causal mask hides lie outside the loops' bounds. Private to codegen/.
#pragma once

#include <array>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "codegen/tile.h"
#include "ir/divide.h"
#include "ir/op_view.h"

namespace tg {

/// The places of the operands of both gradients; tg.attention has the first three.
using Of = at::attention_grad_q;

/// The attention, or one of its two gradients, that a region computes.
struct AttentionRegion {
  /// A result: the sum over the other side's rows of a weight, p or ds, times the row.
  struct Sum {
    int result;
    bool ofP;  ///< p times the second operand of the other side; else ds times the first
  };

  const Op* op = nullptr;
  int64_t queries = 0, keys = 0, batch = 1;  ///< batch is the product of the leading axes
  Shape lead;
  bool causal = false;
  bool forKeys = false;  ///< the rows of the own side are keys
  double scale = 1;
  const Value *bias = nullptr, *keep = nullptr;  ///< null if there is none
  double keepShare = 1;                          ///< 1 - p
  std::array<int, 2> own{}, other{};             ///< operands of the scores, then of their gradients
  std::vector<Sum> sums;

  /// The attention of the region; an error if it has none.
  static Result<AttentionRegion> of(const LowerContext& c);

  bool isForward() const { return op->code == Opcode::attention; }
  int64_t ownRows() const { return forKeys ? keys : queries; }
  int64_t otherRows() const { return forKeys ? queries : keys; }
  int64_t width(int operand) const { return op->in(operand)->type.shape.back(); }
  int64_t width(const Sum& sum) const { return width(other[sum.ofP ? 1 : 0]); }
  /// Whether some queries see no key, so that their softmax has no terms.
  bool hasEmptyRows() const { return causal && queries > keys; }

  /// The first row of the own side for a workgroup of `rows` rows. Workgroups with the most work start first: with
  /// a mask, those of the last queries or of the first keys.
  Index firstRow(LowerContext& c, const Index& group, int64_t rows) const;
  /// The blocks of the other side that some of the `rows` rows from `first` on sees: [from, to).
  std::pair<KV, KV> blocks(LowerContext& c, const Index& first, int64_t rows, int64_t block) const;
};

/// Declares a result's elements at a row-major `offset`, four if it has lanes, and stores them in each result of
/// the region that is this one, or this one rounded. `following` gives the next four elements; 16-bit results then
/// store all eight at once.
void storeAttention(LowerContext& c, const Value* result, const Index& offset, const KV& value,
                    const KV* following = nullptr);

/// The loop of one invocation or workgroup. Derived classes say what holds a part of the scores: a scalar or vector
/// of an invocation, or a matrix of a subgroup. A part covers some own rows and some rows of the other side; parts
/// form a grid of `down` x `across`, stored column by column.
///
///   emit: begin; for each range of blocks: for each block: forwardStep or gradientStep; finishForward or storeSum
class AttentionWalk {
 public:
  virtual ~AttentionWalk() = default;
  /// Emits the loop for the own side's rows from `first` on, in one batch.
  void emit(const Index& batch, const Index& first);

 protected:
  /// Parts of scores or weights: `down` of the first column, then of the next.
  using Parts = std::vector<KV>;
  /// Blocks of the other side; `masked` if some scores of these blocks may be hidden.
  struct Range {
    KV from, to;
    bool masked;
  };
  /// How rows and scores are divided.
  struct Division {
    int64_t rows, block;  ///< own rows that are held; rows of the other side in a step
    int64_t invocations = 1;
    int64_t down, across;      ///< parts of the scores along the own side, and along the other
    int64_t weighed;           ///< forward: columns of parts whose scores become weights at a time
    int64_t atOnce;            ///< columns of parts that are multiplied at a time; divides `weighed`
    int64_t vector = 0;        ///< elements of a staged vector; 0 if rows are not staged
    bool powersOfTwo = false;  ///< p is 2^(s·scale·log₂e - m); else scores come scaled, p is e^(s - m)
    double lift = 0;           ///< added to exponents of 2, because weights are truncated after that
    bool rolled = false;       ///< loops over blocks are not unrolled
    size_t values = 1;         ///< values that hold a staged vector between load and store
  };

  AttentionWalk(LowerContext& c, const AttentionRegion& region, Division division);

  /// Loads the own side's rows, to where `scores` reads them.
  virtual void begin() = 0;
  /// The ranges of blocks in from..to, each of which becomes a loop.
  virtual std::vector<Range> ranges(const KV& from, const KV& to) { return {{from, to, true}}; }
  /// loadBlock loads the vectors of a block that this invocation stages, of both of the other side's operands.
  /// storeBlock stages them and returns the rest of `loaded`.
  virtual std::vector<KV> loadBlock(const Index& block);
  virtual std::span<const KV> storeBlock(std::span<const KV> loaded);
  /// What a derived class itself loads one block ahead: here for the first block. Its values end the steps' state.
  virtual std::vector<KV> loadsAhead(const Index&) { return {}; }
  /// Loads vector `column` of an operand's row.
  virtual Parts vectorOf(int, const Index&, const Index&) { return {}; }
  virtual void stage(int, const Index&, const Index&, std::span<const KV>) {}

  /// The initial values: zeros of a part of the scores and of a part of a result; scores below all others.
  virtual KV zero() = 0;
  virtual KV zeroOf(const AttentionRegion::Sum&) { return zero(); }
  virtual KV lowest() = 0;
  /// The number of parts of a result that the loop sums up.
  virtual size_t partsOf(const AttentionRegion::Sum& sum) const = 0;
  /// The products own[which] x other[which] for `atOnce` columns of parts from `column` on.
  virtual Parts scores(int which, int64_t column) = 0;
  /// The scores of `weighed` columns of parts, with `lowest` in place of hidden ones.
  virtual Parts maskedScores(int64_t from, bool masked);
  /// Turns scores, whose first column is `from`, into weights. Updates the rows' maxima, the sums of their weights
  /// and the weighted sums.
  virtual void weigh(int64_t from, Parts& scores, std::span<KV> largest, std::span<KV> total,
                     std::span<KV> sums);
  /// The maximum of a row's scores and of its maximum so far.
  virtual KV largestOf(size_t row, const KV& before, const Parts& scores) = 0;
  /// Multiplies a row's weighted sums, which are stored row by row.
  virtual void rescale(size_t row, const KV& by, std::span<KV> sums);
  /// Which elements of a part may see each other. A literal if all or none do, or if `hide` has masked them.
  virtual KV visible(int64_t row, int64_t column) = 0;
  /// Replaces the hidden elements of a part of scores by a large negative number.
  virtual KV hide(const KV& score, int64_t, int64_t) { return score; }
  /// A part of the scores with the bias, as an exponent of 2 if there is one; and a part of the weights, or of their
  /// gradients, where the keep keeps them.
  virtual KV biased(const KV& score, int64_t, int64_t) { return score; }
  virtual KV kept(const KV& weights, int64_t, int64_t) { return weights; }
  /// Log-sum-exp and delta of a column's queries; with powersOfTwo, times log₂e and times the scale, respectively.
  virtual std::pair<KV, KV> statistics(int64_t) { return {}; }
  /// Converts weights to a factor of a product.
  virtual KV factor(const KV& weights) { return weights; }
  /// Adds the products of `atOnce` columns of weights and the block's rows to the sums.
  virtual void addProducts(int64_t column, const Parts& p, const Parts& ds, std::span<KV> sums) = 0;

  /// The step of a block. Forward, the state has the rows' maxima, the sums of their weights, and the weighted sums.
  virtual void forwardStep(std::span<KV> state, bool masked);
  virtual void gradientStep(std::span<KV> sums, bool masked);
  /// The weights p of part (row, column), from its scores; and the gradients ds of its scores, from these weights and
  /// the gradients of weights.
  KV weightsOf(const KV& scores, const KV& lse, int64_t row, int64_t column, bool masked);
  KV gradientsOf(const KV& weights, const KV& ofWeights, const KV& delta, int64_t row, int64_t column);

  /// Divides the weighted sums by the sums of weights; stores the results and the log-sum-exps.
  virtual void finishForward(std::span<KV> largest, std::span<KV> total, std::span<KV> sums) = 0;
  virtual void storeSum(size_t number, std::span<KV> parts) = 0;

  // Helpers of derived classes. Rows behind an operand's end are clamped to one of its rows.
  KV element(int operand, const Index& row, const Index& column);
  KV number(int operand, const Index& row);
  std::vector<KV> loadRows(int operand, const Index& first, int64_t count, int64_t extent);
  std::span<const KV> storeRows(std::span<const KV> loaded, int operand, int64_t count);
  /// The first row of a block of the other side.
  Index firstOf(const Index& block) { return c_.space.scale(block, d_.block); }
  /// A row of the own side among those of all batches.
  Index overBatches(const Index& row) { return c_.space.add(c_.space.scale(batch_, r_.ownRows()), row); }
  /// body(row) where it is one of the own side.
  void whereOwn(const Index& row, const std::function<void(const Index&)>& body) {
    c_.emitter.whereInside(row, r_.ownRows(), IndexSpace::constant(0), 1,
                           [&](const Index& in, const Index&) { body(in); });
  }
  StagingTasks tasks(int64_t count) { return {c_, count, d_.invocations, lane_}; }
  KV sees(const Index& own, const Index& other);
  /// The divisor of the weighted sums, and the log-sum-exp: 1 and 0 for rows that see no key.
  KV divisorOf(const KV& total);
  KV logSumExp(const KV& largest, const KV& total);
  KV isPositive(const KV& x) { return kernel_.op(Opcode::k_gt, {x, zero()}, DType::i1); }
  KV one() { return kernel_.splat(KernelBuilder::f32(1), zero().lanes()); }
  Index inside(const Index& index, int64_t count) { return c_.emitter.below(index, count).second; }
  Index plus(const Index& index, int64_t by) { return c_.space.add(index, IndexSpace::constant(by)); }
  KV at(const Index& index) { return c_.space.materialize(index); }
  KV f32(Opcode code, const KV& a, const KV& b) { return kernel_.op(code, {a, b}, DType::f32); }
  KV sub(const KV& a, const KV& b) { return f32(Opcode::k_sub, a, b); }
  KV larger(const KV& a, const KV& b) { return f32(Opcode::k_max, a, b); }

  KV power(const KV& x) {
    return kernel_.op(d_.powersOfTwo ? Opcode::k_exp2 : Opcode::k_exp, {x}, DType::f32);
  }
  KV scaled(const KV& x, double by) { return kernel_.mul(x, KernelBuilder::f32(by)); }

  LowerContext& c_;
  KernelBuilder& kernel_;
  const AttentionRegion& r_;
  const Division d_;
  const double exponent_;  ///< score · exponent_ is the exponent of 2
  const int64_t otherBlocks_;
  Index lane_;           ///< the invocation's number
  Index batch_, first_;  ///< of the workgroup; its first own row
  Indices lead_;
  Index block_;        ///< the block of the other side in this step
  Parts lse_, delta_;  ///< of the own rows, if these are queries: as `statistics` gives them

 private:
  KV exponentOf(const KV& x) { return d_.powersOfTwo && !r_.bias ? scaled(x, exponent_) : x; }
};

/// Lowers a region whose workgroups divide an attention by `division`; each runs one Walk.
template <class Walk, class Division>
Result<void> lowerByGroups(LowerContext& c, const Division& division) {
  TG_TRY(AttentionRegion region, AttentionRegion::of(c));
  const std::string problem = division.problem(*region.op, c.target);
  if (!problem.empty()) return failAt(c.fused.loc, "schedule " + c.schedule.str() + " " + problem);
  c.launchGroups(region.batch * divideCeil(region.ownRows(), division.rows), division.invocations(),
                 [&](const Index& group) {
                   Walk walk(c, region, division);
                   const Index batch = c.space.mod(group, region.batch);
                   walk.emit(batch, region.firstRow(c, group, division.rows));
                 });
  return {};
}

}  // namespace tg
