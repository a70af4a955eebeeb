// SPDX-License-Identifier: Apache-2.0
// Attention and its two gradients, without a matrix of scores: one walk, whatever holds a part of the scores. An
// invocation or a workgroup holds some rows of its own side and walks the rows of the other side block by block:
//
//              own side   other side   scores       results
//   forward    q          k, v         q·kᵀ         o += p·v, p = e^(s - running maximum)
//   grad of q  q, do      k, v         q·kᵀ, do·vᵀ  dq += ds·k
//   grad of kv k, v       q, do        k·qᵀ, v·doᵀ  dk += ds·q, dv += p·do
//
// with p = e^(s - lse) and ds = p·(do·vᵀ - delta) in the gradients. Forward, the softmax is kept up online (Milakov
// and Gimelshein 2018, Dao et al. 2022): a running maximum m, sum l and mixture, rescaled by e^(m_old - m) when a
// block raises the maximum. Blocks that a causal mask hides lie outside the loops' bounds. Private to codegen/.
#pragma once

#include <array>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "codegen/tile.h"

namespace tg {

/// The attention, or one of its two gradients, that a region computes.
struct AttentionRegion {
  /// A result: the sum of the products of weights, p or ds, and rows of the other side.
  struct Sum {
    int result;
    bool ofP;  ///< p times the second of the other side's operands; else ds times the first
  };

  const Op* op = nullptr;
  int64_t queries = 0, keys = 0, batch = 1;  ///< batch is the product of the leading axes
  Shape lead;
  bool causal = false;
  bool forKeys = false;  ///< the own side are keys
  double scale = 1;
  std::array<int, 2> own{}, other{};  ///< operands: of the scores, and of their gradients
  std::vector<Sum> sums;

  /// An error where the region has none.
  static Result<AttentionRegion> of(const LowerContext& c);

  bool isForward() const { return op->code == Opcode::attention; }
  int64_t ownRows() const { return forKeys ? keys : queries; }
  int64_t otherRows() const { return forKeys ? queries : keys; }
  int64_t width(int operand) const { return op->in(operand)->type.shape.back(); }
  int64_t width(const Sum& sum) const { return width(other[sum.ofP ? 1 : 0]); }
  /// Whether some queries see no key.
  bool hasEmptyRows() const { return causal && queries > keys; }

  /// The first row of the own side that a workgroup of `rows` of them has. Groups with the most work go first: under
  /// a mask those of the last queries, or of the first keys.
  Index firstRow(LowerContext& c, const Index& group, int64_t rows) const;
  /// The blocks of the other side of which some row from `first` on, of so many, sees a row: [from, to).
  std::pair<KV, KV> blocks(LowerContext& c, const Index& first, int64_t rows, int64_t block) const;
};

/// Declares a result's elements at a row-major `offset`, four where it has lanes, and stores them where the region
/// yields the result, or it rounded. Of eight elements the second four follow; such are stored at once where memory
/// has 16 bits.
void storeAttention(LowerContext& c, const Value* result, const Index& offset, const KV& value,
                    const KV* following = nullptr);

/// The walk of an invocation or a workgroup. What holds scores is derived of it: numbers or vectors of an invocation,
/// matrices of a subgroup.
class AttentionWalk {
 public:
  virtual ~AttentionWalk() = default;
  /// Of the own side's rows from `first` on, of one batch.
  void emit(const Index& batch, const Index& first);

 protected:
  /// Scores, or weights, part by part: those of a column of parts side by side.
  using Parts = std::vector<KV>;
  /// Blocks of the other side; `masked` where some of a row's scores may be hidden.
  struct Range {
    KV from, to;
    bool masked;
  };
  /// How rows and scores are divided.
  struct Division {
    int64_t rows, block;  ///< of the own side that are held; of the other side in a step
    int64_t invocations = 1;
    int64_t down, across;      ///< parts of the scores, along the own side and along the other
    int64_t weighed;           ///< columns of parts whose scores are weighed at a time, forward
    int64_t atOnce;            ///< columns of parts whose weights are multiplied at a time, a part of these
    int64_t vector = 0;        ///< elements staged at a time; 0 where rows are read where they are used
    bool powersOfTwo = false;  ///< p is 2^(s·scale·log₂e - m); else scores come scaled, p is e^(s - m)
    bool rolled = false;       ///< loops over blocks stay loops
    size_t values = 1;         ///< that a staged vector is on its way from memory
  };

  AttentionWalk(LowerContext& c, const AttentionRegion& region, Division division);

  /// Brings the own side's rows to where scores are computed from.
  virtual void begin() = 0;
  /// The loops over the blocks from..to.
  virtual std::vector<Range> ranges(const KV& from, const KV& to) { return {{from, to, true}}; }
  /// Loads what the next step stores, of both of the other side's operands; stores it, and returns what is left.
  virtual std::vector<KV> loadBlock(const Index& block);
  virtual std::span<const KV> storeBlock(std::span<const KV> loaded);
  /// Vector `column` of an operand's row; puts it into shared memory, the row counted in the block.
  virtual Parts vectorOf(int, const Index&, const Index&) { return {}; }
  virtual void stage(int, const Index&, const Index&, std::span<const KV>) {}

  /// Parts of zeros, of scores and of a result; scores that are less than all others.
  virtual KV zero() = 0;
  virtual KV zeroOf(const AttentionRegion::Sum&) { return zero(); }
  virtual KV lowest() = 0;
  /// Parts of a result that are summed up.
  virtual size_t partsOf(const AttentionRegion::Sum& sum) const = 0;
  /// Scores of `atOnce` columns of parts: own[which] times other[which].
  virtual Parts scores(int which, int64_t column) = 0;
  /// The scores of `weighed` columns of parts, those that are hidden being lowest.
  virtual Parts maskedScores(int64_t from, bool masked);
  /// Turns the scores of the columns from `from` on into weights. Updates the rows' maxima, the sums of their weights
  /// and the mixture.
  virtual void weigh(int64_t from, Parts& scores, std::span<KV> largest, std::span<KV> total,
                     std::span<KV> sums);
  /// The largest of what the rows have seen before and of scores.
  virtual KV largestOf(size_t row, const KV& before, const Parts& scores) = 0;
  /// Multiplies what is summed up of a row of parts so far: sums are row by row.
  virtual void rescale(size_t row, const KV& by, std::span<KV> sums);
  /// Which elements of a part see each other; a literal where all or none do, or `hide` has told.
  virtual KV visible(int64_t row, int64_t column) = 0;
  /// A score with a large negative term where it is hidden.
  virtual KV hide(const KV& score, int64_t, int64_t) { return score; }
  /// Log-sum-exp and delta of a part's queries; with powers of two they are times log₂e and times the scale.
  virtual std::pair<KV, KV> statistics(int64_t row, int64_t column) = 0;
  /// Weights as a factor of a product.
  virtual KV factor(const KV& weights) { return weights; }
  /// Adds the products of `atOnce` columns of weights and rows of the block.
  virtual void addProducts(int64_t column, const Parts& p, const Parts& ds, std::span<KV> sums) = 0;

  /// Divides the mixture by the sums, stores it and the log-sum-exps.
  virtual void finishForward(std::span<KV> largest, std::span<KV> total, std::span<KV> sums) = 0;
  virtual void storeSum(size_t number, std::span<KV> parts) = 0;

  // For these. Rows behind an operand's end repeat one of it.
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
  /// What the mixture of rows is divided by, and the log-sum-exp: 1 and 0 where they have seen nothing.
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
  const double exponent_;  ///< of 2, of which a score is a multiple
  const int64_t otherBlocks_;
  Index lane_;           ///< the invocation's number
  Index batch_, first_;  ///< of the group; its first own row
  Indices lead_;
  Index block_;  ///< of the other side, of the step at hand

 private:
  KV exponentOf(const KV& x) { return d_.powersOfTwo ? scaled(x, exponent_) : x; }
  void forwardStep(std::span<KV> state, bool masked);
  void gradientStep(std::span<KV> sums, bool masked);
};

/// The kernel of a region whose attention workgroups divide by `division`, each by one Walk.
template <class Walk, class Division>
Result<void> lowerByGroups(LowerContext& c, const Division& division) {
  TG_TRY(AttentionRegion region, AttentionRegion::of(c));
  const std::string problem = division.problem(*region.op, c.target);
  if (!problem.empty()) return failAt(c.fused.loc, "schedule " + c.schedule.str() + " " + problem);
  c.launchGroups(region.batch * ((region.ownRows() + division.rows - 1) / division.rows),
                 division.invocations(), [&](const Index& group) {
                   Walk walk(c, region, division);
                   const Index batch = c.space.mod(group, region.batch);
                   walk.emit(batch, region.firstRow(c, group, division.rows));
                 });
  return {};
}

}  // namespace tg
