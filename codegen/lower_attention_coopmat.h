// SPDX-License-Identifier: Apache-2.0
// The class that lowers coopmat_attention; lower_attention_coopmat.cpp says how it computes. Private to codegen/.
#pragma once

#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "codegen/schedule_attention_coopmat.h"
#include "codegen/schedule_coopmat.h"
#include "codegen/tile_attention.h"
#include "ir/attention_parts.h"

namespace tg {

/// A part of the scores is a matrix.
class CoopmatAttention final : public AttentionWalk {
 public:
  CoopmatAttention(LowerContext& c, const AttentionRegion& region, const AttentionFragments& fragments);

 private:
  Type matrix(MatrixUse use) const {
    return Type::coopmat(use == MatrixUse::acc ? DType::f32 : narrow_, kSide, kSide, use);
  }

  void begin() override;
  std::vector<Range> ranges(const KV& from, const KV& to) override;
  std::vector<KV> loadBlock(const Index& block) override;
  std::span<const KV> storeBlock(std::span<const KV> loaded) override;
  Parts vectorOf(int operand, const Index& row, const Index& column) override;
  void stage(int operand, const Index& row, const Index& column, std::span<const KV> vector) override;
  KV zero() override { return kernel_.coopmatSplat(0, matrix(MatrixUse::acc)); }
  /// Where `shift` starts: at the lift. With a bias, at minus a maximum below all scores.
  KV lowest() override { return kernel_.coopmatSplat(r_.bias ? kNoScore : d_.lift, matrix(MatrixUse::acc)); }
  size_t partsOf(const AttentionRegion::Sum& sum) const override {
    return static_cast<size_t>(d_.down * f_.part(r_.width(sum)) / kSide);
  }
  Parts scores(int which, int64_t column) override;
  KV largestOf(size_t row, const KV& before, const Parts& scores) override {
    return larger(mostOf(row, scores), before);
  }
  void weigh(int64_t from, Parts& scores, std::span<KV> shift, std::span<KV> total,
             std::span<KV> sums) override;
  KV visible(int64_t, int64_t) override { return KernelBuilder::literal(DType::i1, 1); }
  KV hide(const KV& score, int64_t row, int64_t column) override;
  KV biased(const KV& score, int64_t row, int64_t column) override;
  KV kept(const KV& weights, int64_t row, int64_t column) override;
  std::pair<KV, KV> statistics(int64_t column) override {
    return stagedStatistics(KernelBuilder::u32(column * kSide), true);
  }
  KV factor(const KV& weights) override { return split_ ? weights : converted(weights); }
  void addProducts(int64_t column, const Parts& p, const Parts& ds, std::span<KV> sums) override;
  void finishForward(std::span<KV> shift, std::span<KV> total, std::span<KV> sums) override;
  void storeSum(size_t number, std::span<KV> parts) override;

  /// A factor of products; for f32x3, its high and low halves.
  struct Factor {
    KV high, low;
  };
  /// A sum of products; for f32x3, also the sum of those with low halves.
  struct Sums {
    KV high, low;
  };

  /// Weights, or their gradients, as an operand A.
  KV converted(const KV& x) { return kernel_.coopmatConvert(x, matrix(MatrixUse::a), d_.lift != 0); }
  KV lowered(const KV& x) { return d_.lift == 0 ? x : kernel_.add(x, KernelBuilder::f32(-d_.lift)); }
  KV liftOf(const KV& shift);
  KV mostOf(size_t row, const Parts& scores);
  KV scaleOf(int operand);
  KV unscaleOf(int operand);
  Factor halved(const KV& given, bool isP);
  /// The first column of matrix `number` in a subgroup's part of the columns.
  Index columnOf(const Index& part, int64_t width, int64_t number) {
    return plus(c_.space.scale(part, f_.part(width)), number * kSide);
  }
  Factor loaded(const KV& row, int operand, int64_t number, MatrixUse use, bool turned);
  /// The sums that products are added to. For f32x3, those of low halves start from zero, and the first product of
  /// high halves starts the other.
  Sums startFrom(const KV& before) { return split_ ? Sums{{}, zero()} : Sums{before, {}}; }
  void multiply(const Factor& a, const Factor& b, Sums& sums);
  KV scaledNumber(int operand, const Index& row);
  std::pair<KV, KV> stagedStatistics(const KV& start, bool ofColumns);
  void padRows(int operand, int64_t from, int64_t count);
  std::vector<Factor> ownMatrices(int operand);
  KV addedUp(const KV& scores);
  void unscale(const AttentionRegion::Sum& sum, std::span<KV> parts);
  void storeMatrix(const KV& matrix, int64_t i,
                   const std::function<void(const Index& row, const Index& part, const Index& half)>& body);
  void whereThere(const Index& column, int64_t width, const std::function<void(const Index&)>& body);
  void storeStatistics(std::span<const KV> lse);
  void raise(size_t row, const KV& least, const Parts& whole, Parts& scores, std::span<KV> shift,
             std::span<KV> total, std::span<KV> sums);

  // Bias and keep (lower_attention_more.cpp).
  static constexpr double kNoScore = 1e37;  ///< minus a maximum below every score with its bias
  void shareMore();
  int64_t stagedQueries() const { return r_.forKeys ? f_.block : f_.rows; }
  int64_t stagedKeys() const { return r_.forKeys ? f_.rows : f_.block; }
  /// Whether each step stages the biases of its keys.
  bool stagesKeys() const { return r_.bias && !byScore_ && !r_.forKeys; }
  /// Neighbouring keys whose biases for a query are staged together.
  int64_t biasLanes() const { return byScore_ && r_.keys % kLanes == 0 ? kLanes : 1; }
  KV biasesAt(const Index& query, const Index& keys);
  void stageBiases(const KV& loaded, const Index& query, const Index& group);
  StagingTasks biasTasks();
  std::pair<Index, Index> stagedPlace(const Index& task);
  void beginMore();
  StagingTasks keepTasks();
  void loadMore(const Index& block, std::vector<KV>& out);
  std::span<const KV> storeMore(std::span<const KV> loaded);

  const AttentionFragments& f_;
  const bool split_;
  const DType narrow_;
  const bool byScore_;  ///< whether the bias differs by query
  Index pair_, part_;   ///< the subgroup's place among the workgroup's rows, and its part of the columns
  Index warpRow_;
  KV subgroup_;
  Value *rows_, *patch_, *lses_ = nullptr, *deltas_ = nullptr, *biases_ = nullptr,
                         *keeps_ = nullptr;  ///< shared memory
  std::vector<Factor> own_[2];
  KV bitUnit_;        ///< with a keep: 2^-(i+1) for key i of a matrix
  KV scoreScale_[2];  ///< for f32x3: the factors of the scores' products
};

}  // namespace tg
