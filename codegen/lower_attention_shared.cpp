// SPDX-License-Identifier: Apache-2.0
// attention{shared, tile, block}: a workgroup computes the scores of a block as a product, and then the results as
// other products. Each passes through shared memory in steps, like a product of matrices:
//
//                     block                        scores: a step has `deep` elements of the rows of both sides;
//        other  ┌───────────────┐ deep             an invocation multiplies `tile` own rows by `columns` others
//          deep └───────────────┘
//         ┌───┐ ┌───────────────┐                  results: a step has `deep` rows of the other side and their
//     own │   │ │ scores        │ rows             weights; an invocation adds to its own tile of each result
//         └───┘ └───────────────┘
//
//   forward: the largest score of each row goes through shared memory; barrier
//   p and ds go to shared memory; barrier

#include <algorithm>
#include <limits>
#include <span>

#include "codegen/schedule_attention_shared.h"
#include "codegen/schedule_parts.h"
#include "codegen/tile_attention.h"

namespace tg {
namespace {

const Type kFour = Type::scalar(DType::f32, kLanes);

/// A part is a vector of the scores of four own rows and one other row.
class SharedAttention final : public AttentionWalk {
 public:
  SharedAttention(LowerContext& c, const AttentionRegion& region, const AttentionBlocking& blocking);

 private:
  /// A result, of which an invocation sums `fours` of rows x `quads` of columns.
  struct Sum {
    int64_t fours, quads;
    TilePlace place;  ///< the invocation's place, in fours of rows and columns
    int64_t placesDown, placesAcross;
  };

  int64_t fours() const { return b_.rows / kLanes; }
  int64_t placesDown() const { return b_.rows / b_.tile; }
  int64_t placesAcross() const { return b_.block / b_.columns; }
  SharedTile tileOf(int64_t rows, int64_t pitch, const char* name) {
    return SharedTile::make(c_, rows, pitch, name);
  }

  void begin() override {}
  std::vector<KV> loadBlock(const Index&) override { return {}; }
  std::vector<KV> loadsAhead(const Index& block) override { return ahead_ = loadScores(0, block, {}); }
  void forwardStep(std::span<KV> state, bool masked) override;
  void gradientStep(std::span<KV> sums, bool masked) override;
  Parts vectorOf(int operand, const Index& row, const Index& column) override;
  void stage(int operand, const Index& row, const Index& column, std::span<const KV> vector) override;
  KV zero() override { return kernel_.splat(KernelBuilder::f32(0)); }
  KV lowest() override { return kernel_.splat(KernelBuilder::f32(-std::numeric_limits<float>::max())); }
  size_t partsOf(const AttentionRegion::Sum& sum) const override {
    return static_cast<size_t>(b_.rows * r_.width(sum) / kLanes / b_.invocations());
  }
  Parts scores(int which, int64_t column) override;
  Parts maskedScores(int64_t from, bool masked) override;
  KV largestOf(size_t row, const KV& before, const Parts& scores) override;
  void rescale(size_t row, const KV& by, std::span<KV> sums) override;
  KV visible(int64_t row, int64_t column) override;
  void addProducts(int64_t column, const Parts& p, const Parts& ds, std::span<KV> sums) override;
  void finishForward(std::span<KV> largest, std::span<KV> total, std::span<KV> sums) override;
  void storeSum(size_t number, std::span<KV> parts) override;

  /// Loads the first step of the product that comes next.
  using Next = Pipeline::Next;
  /// Adds the products of all steps to the sums.
  void inSteps(int64_t steps, std::span<KV> sums, Pipeline::Load load, Pipeline::Store store,
               const Pipeline::Body& body, const Next& next);
  std::vector<KV> loadScores(int which, const Index& block, const Index& step);
  std::vector<KV> loadResults(int operand, const Index& step);
  Next nextScores(int which) {
    return [this, which] { return loadScores(which, block_, {}); };
  }
  Next nextResults(int operand) {
    return [this, operand] { return loadResults(operand, {}); };
  }
  Next nextBlock() {
    return [this] { return loadScores(0, inside(plus(block_, 1), otherBlocks_), {}); };
  }
  void loadTurned(std::vector<KV>& out, int operand, const Index& first, int64_t count, int64_t extent,
                  const Index& column);
  std::span<const KV> storeTurned(const SharedTile& tile, int64_t count, std::span<const KV> loaded);
  std::span<KV> takeAhead(std::span<KV> state);
  KV numbersOf(int operand, int64_t four, int64_t column);
  void putWeights(const Parts& values);
  void addUp(const Sum& sum, int operand, std::span<KV> sums, const Next& next);
  /// Multiplies four rows of a result by the four lanes of `by`.
  void multiply(const Sum& sum, int64_t four, const KV& by, std::span<KV> parts);

  /// The fours of rows and columns of an invocation are interleaved with those of the others.
  Index otherInBlock(int64_t column) {
    const Index four = plus(place_.column, column / kLanes * placesAcross());
    return plus(c_.space.scale(four, kLanes), column % kLanes);
  }
  Index ownFour(int64_t four) { return plus(place_.row, four * placesDown()); }
  Index fourOf(const Sum& sum, int64_t four) { return plus(sum.place.row, four * sum.placesDown); }
  /// The first own row of a four.
  Index ownRow(const Index& four) { return c_.space.add(first_, c_.space.scale(four, kLanes)); }

  const AttentionBlocking& b_;
  TilePlace place_;         ///< place of this invocation's scores
  int64_t deep_;            ///< elements of rows in a step of the scores
  int64_t deepRows_;        ///< rows of the other side in a step of the results
  SharedTile own_, other_;  ///< of a step of the scores, transposed: row d has element d of all rows
  SharedTile rows_;         ///< of a step of the results: rows of the other side
  std::vector<KV> ahead_;   ///< loaded for the first step of the next product
  SharedTile weights_;      ///< p, then ds: row i has those of all own rows for row i of the block
  SharedTile partial_, shrink_;
  std::vector<Sum> sums_;
  KV isFirst_;  ///< whether the invocation is the first of those that share its own rows
};

SharedAttention::SharedAttention(LowerContext& c, const AttentionRegion& region,
                                 const AttentionBlocking& blocking)
    : AttentionWalk(c, region,
                    {.rows = blocking.rows,
                     .block = blocking.block,
                     .invocations = blocking.invocations(),
                     .down = blocking.tile / kLanes,
                     .across = blocking.columns,
                     .weighed = blocking.columns,
                     .atOnce = blocking.columns,
                     .vector = kLanes}),
      b_(blocking), place_(placeOf(c.space, lane_, placesDown(), placesAcross())),
      deep_(AttentionBlocking::deepOf(r_.width(r_.other[0]), r_.width(r_.other[1]))),
      deepRows_(b_.deepRows()) {
  own_ = tileOf(deep_, AttentionBlocking::pitch(b_.rows), "own");
  other_ = tileOf(deep_, AttentionBlocking::pitch(b_.block), "other");
  rows_ = tileOf(deepRows_, std::max(r_.width(r_.other[0]), r_.width(r_.other[1])) / kLanes, "rows");
  weights_ = tileOf(b_.block, AttentionBlocking::pitch(b_.rows), "weights");
  if (r_.isForward()) {
    partial_ = tileOf(placesAcross(), fours(), "partial");
    shrink_ = tileOf(1, fours(), "shrink");
  }
  for (const auto& sum : r_.sums) {
    const int64_t across = b_.resultPlaces(r_.width(sum)), down = b_.invocations() / across;
    sums_.push_back({fours() / down, r_.width(sum) / kLanes / across, placeOf(c_.space, lane_, down, across),
                     down, across});
  }
}

void SharedAttention::inSteps(int64_t steps, std::span<KV> sums, Pipeline::Load load, Pipeline::Store store,
                              const Pipeline::Body& body, const Next& next) {
  Pipeline pipeline(c_, steps, ahead_, std::move(load), std::move(store));
  pipeline.carry(sums);
  ahead_ = pipeline.runThen("step", body, next);
  std::ranges::copy(pipeline.state(), sums.begin());
}

/// Loads deep_ elements, from `column` on, of `count` rows from `first` on, as vectors of four rows: neighbours load
/// neighbouring elements.
void SharedAttention::loadTurned(std::vector<KV>& out, int operand, const Index& first, int64_t count,
                                 int64_t extent, const Index& column) {
  tasks(deep_ * count / kLanes).load([&](const Index& task) {
    const Index d = c_.space.add(column, c_.space.mod(task, deep_));
    const Index row = c_.space.add(first, c_.space.scale(c_.space.div(task, deep_), kLanes));
    std::vector<KV> lanes;
    for (int64_t lane = 0; lane < kLanes; ++lane)
      lanes.push_back(element(operand, inside(plus(row, lane), extent), d));
    out.push_back(kernel_.vec(lanes));
  });
}

std::span<const KV> SharedAttention::storeTurned(const SharedTile& tile, int64_t count,
                                                 std::span<const KV> loaded) {
  tasks(deep_ * count / kLanes).store([&](const Index& task) {
    tile.write(c_, c_.space.mod(task, deep_), c_.space.div(task, deep_), loaded[0]);
    loaded = loaded.subspan(1);
  });
  return loaded;
}

AttentionWalk::Parts SharedAttention::vectorOf(int operand, const Index& row, const Index& column) {
  return {kernel_.widened(
      element(operand, row, c_.space.add(c_.space.scale(column, kLanes), IndexSpace::lane())), kFour)};
}

void SharedAttention::stage(int, const Index& row, const Index& column, std::span<const KV> vector) {
  rows_.write(c_, row, column, vector[0]);
}

std::vector<KV> SharedAttention::loadScores(int which, const Index& block, const Index& step) {
  std::vector<KV> out;
  const Index column = c_.space.scale(step, deep_);
  loadTurned(out, r_.own[which], first_, b_.rows, r_.ownRows(), column);
  loadTurned(out, r_.other[which], firstOf(block), b_.block, r_.otherRows(), column);
  return out;
}

AttentionWalk::Parts SharedAttention::scores(int which, int64_t) {
  const auto down = static_cast<size_t>(d_.down), across = static_cast<size_t>(d_.across);
  auto load = [&](const Index& step) { return loadScores(which, block_, step); };
  auto store = [&](std::span<const KV> loaded) {
    storeTurned(other_, b_.block, storeTurned(own_, b_.rows, loaded));
  };
  auto multiply = [&](const Index&, std::span<KV> acc) {
    for (int64_t d = 0; d < deep_; ++d) {
      const Index at = IndexSpace::constant(d);
      const Parts ours = own_.vectors(c_, at, place_.row, d_.down, placesDown()),
                  theirs = other_.vectors(c_, at, place_.column, d_.across / kLanes, placesAcross());
      for (size_t column = 0; column < across; ++column)
        for (size_t four = 0; four < down; ++four) {
          KV& sum = acc[column * down + four];
          sum = kernel_.fma(ours[four],
                            kernel_.extract(theirs[column / kLanes], static_cast<int>(column % kLanes)), sum);
        }
    }
  };
  Parts out(across * down, zero());
  // The product that follows: ds by rows; p by rows; the gradients of the weights.
  const Next next = which == 1                     ? nextResults(r_.other[0])
                    : r_.isForward() || r_.forKeys ? nextResults(r_.other[1])
                                                   : nextScores(1);
  inSteps(r_.width(r_.own[which]) / deep_, out, load, store, multiply, next);
  if (which == 0)
    for (KV& each : out) each = kernel_.mul(each, kernel_.splat(KernelBuilder::f32(r_.scale)));
  return out;
}

std::vector<KV> SharedAttention::loadResults(int operand, const Index& step) {
  return loadRows(operand, c_.space.add(firstOf(block_), c_.space.scale(step, deepRows_)), deepRows_,
                  r_.otherRows());
}

void SharedAttention::addUp(const Sum& sum, int operand, std::span<KV> sums, const Next& next) {
  auto load = [&](const Index& step) { return loadResults(operand, step); };
  auto store = [&](std::span<const KV> loaded) { storeRows(loaded, operand, deepRows_); };
  auto multiply = [&](const Index& step, std::span<KV> now) {
    for (int64_t row = 0; row < deepRows_; ++row) {
      const Parts ours = weights_.vectors(c_, plus(c_.space.scale(step, deepRows_), row), sum.place.row,
                                          sum.fours, sum.placesDown),
                  theirs = rows_.vectors(c_, IndexSpace::constant(row), sum.place.column, sum.quads,
                                         sum.placesAcross);
      addOuterProduct(kernel_, ours, theirs, now);
    }
  };
  inSteps(b_.block / deepRows_, sums, load, store, multiply, next);
}

KV SharedAttention::visible(int64_t row, int64_t column) {
  return sees(c_.space.add(ownRow(ownFour(row)), IndexSpace::lane()),
              c_.space.add(firstOf(block_), otherInBlock(column)));
}

/// The masked scores; also stores to shared memory the largest score that this invocation has of each row.
AttentionWalk::Parts SharedAttention::maskedScores(int64_t, bool) {
  Parts s = scores(0, 0);
  for (int64_t four = 0; four < d_.down; ++four) {
    KV most;
    for (int64_t column = 0; column < d_.across; ++column) {
      KV& score = s[column * d_.down + four];
      score = kernel_.select(visible(four, column), score, lowest());
      most = column == 0 ? score : larger(most, score);
    }
    partial_.write(c_, place_.column, ownFour(four), most);
  }
  kernel_.barrier();
  isFirst_ = kernel_.op(Opcode::k_eq, {at(place_.column), KernelBuilder::u32(0)}, DType::i1);
  return s;
}

KV SharedAttention::largestOf(size_t row, const KV& before, const Parts&) {
  KV top = before;
  for (int64_t part = 0; part < placesAcross(); ++part)
    top = larger(top, partial_.read(c_, IndexSpace::constant(part), ownFour(static_cast<int64_t>(row))));
  return top;
}

/// Publishes the factor in shared memory: other invocations hold the results of these rows.
void SharedAttention::rescale(size_t row, const KV& by, std::span<KV>) {
  kernel_.guard(isFirst_, [&] { shrink_.write(c_, {}, ownFour(static_cast<int64_t>(row)), by); });
}

/// The numbers (lse or delta) of part (four, column)'s queries: four own rows, or one row of the other side.
KV SharedAttention::numbersOf(int operand, int64_t four, int64_t column) {
  if (r_.forKeys) {
    const Index query = c_.space.add(firstOf(block_), otherInBlock(column));
    return kernel_.splat(number(operand, inside(query, r_.otherRows())));
  }
  std::vector<KV> out;
  for (int64_t lane = 0; lane < kLanes; ++lane)
    out.push_back(number(operand, inside(plus(ownRow(ownFour(four)), lane), r_.ownRows())));
  return kernel_.vec(out);
}

void SharedAttention::putWeights(const Parts& values) {
  for (int64_t column = 0; column < d_.across; ++column)
    for (int64_t four = 0; four < d_.down; ++four)
      weights_.write(c_, otherInBlock(column), ownFour(four), values[column * d_.down + four]);
}

/// The state without what the last block loaded ahead, which becomes ahead_.
std::span<KV> SharedAttention::takeAhead(std::span<KV> state) {
  const std::span<KV> loads = state.last(ahead_.size());
  std::ranges::copy(loads, ahead_.begin());
  return state.first(state.size() - loads.size());
}

void SharedAttention::forwardStep(std::span<KV> state, bool masked) {
  AttentionWalk::forwardStep(takeAhead(state), masked);
  std::ranges::copy(ahead_, state.last(ahead_.size()).begin());
}

/// The weights wait in shared memory for the gradients of weights, and so do not take registers while these are
/// computed. They have to be there anyway, for the invocations that multiply them by rows.
void SharedAttention::gradientStep(std::span<KV> state, bool masked) {
  const std::span<KV> sums = takeAhead(state), ofRows = sums.first(partsOf(r_.sums[0]));
  auto forParts = [&](auto&& body) {
    for (int64_t k = 0; k < d_.across * d_.down; ++k) body(k, k % d_.down, k / d_.down);
  };
  Parts parts = scores(0, 0);
  forParts([&](int64_t k, int64_t four, int64_t column) {
    parts[k] = weightsOf(parts[k], numbersOf(Of::lse, four, column), four, column, masked);
  });
  putWeights(parts);
  if (r_.forKeys) {
    kernel_.barrier();
    addUp(sums_[1], r_.other[1], sums.subspan(ofRows.size()), nextScores(1));
  }
  parts = scores(1, 0);
  forParts([&](int64_t k, int64_t four, int64_t column) {
    const KV weights = weights_.read(c_, otherInBlock(column), ownFour(four));
    parts[k] = gradientsOf(weights, parts[k], numbersOf(Of::delta, four, column), four, column);
  });
  putWeights(parts);
  kernel_.barrier();
  addUp(sums_[0], r_.other[0], ofRows, nextBlock());
  std::ranges::copy(ahead_, state.last(ahead_.size()).begin());
}

void SharedAttention::multiply(const Sum& sum, int64_t four, const KV& by, std::span<KV> parts) {
  for (int64_t lane = 0; lane < kLanes; ++lane)
    for (int64_t quad = 0; quad < sum.quads; ++quad) {
      KV& each = parts[(four * kLanes + lane) * sum.quads + quad];
      each = kernel_.mul(each, kernel_.splat(kernel_.extract(by, static_cast<int>(lane))));
    }
}

void SharedAttention::addProducts(int64_t, const Parts& p, const Parts&, std::span<KV> sums) {
  putWeights(p);
  kernel_.barrier();
  for (int64_t four = 0; four < sums_[0].fours; ++four)
    multiply(sums_[0], four, shrink_.read(c_, {}, fourOf(sums_[0], four)), sums);
  addUp(sums_[0], r_.other[1], sums, nextBlock());
}

void SharedAttention::storeSum(size_t number, std::span<KV> parts) {
  const Sum& sum = sums_[number];
  const Value* value = r_.op->result(r_.sums[number].result);
  for (int64_t row = 0; row < sum.fours * kLanes; ++row)
    whereOwn(plus(ownRow(fourOf(sum, row / kLanes)), row % kLanes), [&](const Index& in) {
      const Index start = c_.space.scale(overBatches(in), r_.width(r_.sums[number]));
      for (int64_t quad = 0; quad < sum.quads; ++quad) {
        const Index column = c_.space.scale(plus(sum.place.column, quad * sum.placesAcross), kLanes);
        storeAttention(c_, value, c_.space.add(c_.space.add(start, column), IndexSpace::lane()),
                       parts[row * sum.quads + quad]);
      }
    });
}

/// Adds up the sums of weights of the invocations that share rows, divides the weighted sums by them, and stores
/// the log-sum-exp of each row.
void SharedAttention::finishForward(std::span<KV> largest, std::span<KV> total, std::span<KV> sums) {
  const KV one = this->one();
  isFirst_ = kernel_.op(Opcode::k_eq, {at(place_.column), KernelBuilder::u32(0)}, DType::i1);
  for (int64_t four = 0; four < d_.down; ++four)
    partial_.write(c_, place_.column, ownFour(four), total[four]);
  kernel_.barrier();
  auto wholeOf = [&](const Index& four) {
    KV sum;
    for (int64_t part = 0; part < placesAcross(); ++part) {
      const KV own = partial_.read(c_, IndexSpace::constant(part), four);
      sum = part == 0 ? own : kernel_.add(sum, own);
    }
    return sum;
  };
  if (r_.op->results.size() > 1)
    kernel_.guard(isFirst_, [&] {
      for (int64_t four = 0; four < d_.down; ++four) {
        const KV lse = logSumExp(largest[four], wholeOf(ownFour(four)));
        for (int64_t lane = 0; lane < kLanes; ++lane)
          whereOwn(plus(ownRow(ownFour(four)), lane), [&](const Index& in) {
            storeAttention(c_, r_.op->result(1), overBatches(in),
                           kernel_.extract(lse, static_cast<int>(lane)));
          });
      }
    });
  for (int64_t four = 0; four < sums_[0].fours; ++four) {
    const KV whole = divisorOf(wholeOf(fourOf(sums_[0], four)));
    multiply(sums_[0], four, kernel_.op(Opcode::k_div, {one, whole}, DType::f32), sums);
  }
  storeSum(0, sums);
}

}  // namespace

Result<void> lowerKernel(LowerContext& c, const SharedAttentionSchedule& schedule) {
  return lowerByGroups<SharedAttention>(c, AttentionBlocking(schedule));
}

}  // namespace tg
