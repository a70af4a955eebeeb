// SPDX-License-Identifier: Apache-2.0
// Attention by workgroups, without its matrix of scores. A workgroup holds a tile of its own side's rows and
// walks the rows of the other side block by block; both stand in shared memory, scores and results in
// registers. One code is the forward pass and both gradients:
//
//              own side   other side   scores       results
//   forward    q          k, v         q·kᵀ         o += p·v, p = e^(s - running maximum)
//   grad of q  q, do      k, v         q·kᵀ, do·vᵀ  dq += ds·k
//   grad of kv k, v       q, do        k·qᵀ, v·doᵀ  dk += ds·q, dv += p·do
//
// with p = e^(s - lse) and ds = p·(do·vᵀ - delta) in the gradients. A step over a block:
//
//   store the block's rows, which the step before has loaded into registers; barrier; load the next block's
//   scores: an invocation computes fours of own rows x `columns` other rows
//   forward: the largest score of each row goes through shared memory; barrier
//   p and ds to shared memory; barrier
//   results: an invocation adds to its own tile of each result; barrier
//
// Blocks that a causal mask hides lie outside the loop's bounds. Forward: Milakov and Gimelshein 2018, Dao
// et al. 2022.

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "codegen/lower_attention.h"
#include "codegen/product_tiles.h"
#include "codegen/schedule_attention_shared.h"
#include "codegen/schedule_parts.h"

namespace tg {
namespace {

const Type kFour = Type::scalar(DType::f32, kLanes);

class SharedAttention {
 public:
  SharedAttention(LowerContext& c, const AttentionRegion& region, const AttentionBlocking& blocking);
  void emit(const Index& group);

 private:
  /// Rows of the own side, turned: vector d · rows/4 + row/4 has four rows' element d.
  struct TurnedTile {
    int which = -1;
    int64_t width = 0;
    Value* buffer = nullptr;
  };
  /// Rows of the other side: vector row · pitch + d/4. An odd pitch keeps neighbouring rows in other banks.
  struct RowTile {
    int which = -1;
    int64_t width = 0, pitch = 0;
    Value* buffer = nullptr;
  };
  /// A result: what an invocation adds up of it is `fours` of rows x `quads` of columns.
  struct Sum {
    int result = 0;
    const RowTile* factor = nullptr;  ///< the other side's rows that the weights multiply
    Value* weights = nullptr;         ///< vector other row · rows/4 + own row/4
    int64_t fours = 0, quads = 0;
    TilePlace place;  ///< of the invocation, in fours of rows and columns
    int64_t placesDown = 0, placesAcross = 0;
    size_t size() const { return static_cast<size_t>(fours * kLanes * quads); }
  };
  using Fours = std::vector<KV>;

  int64_t fours() const { return b_.rows / kLanes; }
  int64_t ownFours() const { return b_.tile / kLanes; }  ///< of an invocation's scores
  int64_t placesDown() const { return b_.rows / b_.tile; }
  int64_t placesAcross() const { return b_.block / b_.columns; }
  bool isForward() const { return r_.op->code == Opcode::attention; }
  int64_t ownRows() const { return forKeys_ ? r_.keys : r_.queries; }
  int64_t otherRows() const { return forKeys_ ? r_.queries : r_.keys; }

  TurnedTile turned(int which, const char* name);
  RowTile rowTile(int which, const char* name);
  Value* weights(const char* name) {
    return c_.kernel.sharedBuffer(Type::buffer(DType::f32, kLanes, {b_.block * fours()}, BufMode::shared),
                                  name);
  }
  void addSum(int result, const RowTile& factor, Value* weights);

  void fill(const TurnedTile& tile);
  Fours load(const RowTile& tile, const KV& round);
  void store(const RowTile& tile, std::span<const KV> loaded);
  Index inside(const Index& at, int64_t count) { return c_.emitter.below(at, count).second; }
  KV element(int which, const Index& row, const Index& column);
  /// Four of the rows' own numbers, at four `at` of the tile.
  KV numbers(int which, const Index& four);
  KV scalar(int which, const Index& row);

  /// Scores of this invocation: for each of its columns, its fours of rows.
  Fours scores(const TurnedTile& own, const RowTile& other);
  void addUp(const Sum& sum, std::span<KV> acc);
  /// Which of four rows and a row of the other side see each other; a literal where all do.
  KV visible(const Index& ownFour, const Index& other);

  /// One step's weights of the forward pass: writes p and the factor by which older sums shrink.
  void softmax(Fours& s, std::span<KV> largest, std::span<KV> total, const KV& round);
  void gradients(Fours& s, const Fours& dp, const KV& round);
  void putWeights(Value* buffer, const Fours& values);
  void finishForward(std::span<KV> largest, std::span<KV> total, std::span<KV> acc);
  void storeSum(const Sum& sum, std::span<const KV> acc);

  Index otherRow(const KV& round, int64_t column) {
    Index block = c_.space.scale(c_.space.variable(round, otherBlocks_), b_.block);
    return c_.space.add(block, otherInBlock(column));
  }
  /// Columns of an invocation lie a number of places apart.
  Index otherInBlock(int64_t column) {
    return c_.space.add(place_.column, IndexSpace::constant(column * placesAcross()));
  }
  Index ownFour(int64_t four) { return c_.space.add(place_.row, IndexSpace::constant(four * placesDown())); }
  KV at(const Index& a, int64_t scale, const Index& b) {
    return c_.space.materialize(c_.space.add(c_.space.scale(a, scale), b));
  }

  LowerContext& c_;
  KernelBuilder& kernel_;
  const AttentionRegion& r_;
  const AttentionBlocking& b_;
  bool forKeys_;
  int64_t otherBlocks_;
  Index lane_;
  TilePlace place_;  ///< of this invocation's scores
  TurnedTile ownScore_, ownGrad_;
  RowTile otherScore_, otherGrad_;
  Value *p_ = nullptr, *ds_ = nullptr, *partial_ = nullptr, *shrink_ = nullptr;
  std::vector<Sum> sums_;
  Index batch_, first_;
  Indices lead_;
  Fours lse_, delta_;  ///< of the own rows, where these are queries
};

SharedAttention::SharedAttention(LowerContext& c, const AttentionRegion& region,
                                 const AttentionBlocking& blocking)
    : c_(c), kernel_(c.kernel), r_(region), b_(blocking),
      forKeys_(region.op->code == Opcode::attention_grad_kv),
      otherBlocks_((otherRows() + blocking.block - 1) / blocking.block),
      lane_(c.space.variable(c.kernel.id(Opcode::k_local_id, 0), blocking.invocations())),
      place_(placeOf(c.space, lane_, placesDown(), placesAcross())) {
  constexpr int kQ = 0, kK = 1, kV = 2, kDo = 5;
  ownScore_ = turned(forKeys_ ? kK : kQ, "own");
  if (!isForward()) ownGrad_ = turned(forKeys_ ? kV : kDo, "own_2");
  otherScore_ = rowTile(forKeys_ ? kQ : kK, "rows");
  otherGrad_ = rowTile(forKeys_ ? kDo : kV, "rows_2");
  if (isForward() || forKeys_) p_ = weights("p");
  if (!isForward()) ds_ = weights("ds");
  if (isForward()) {
    partial_ = kernel_.sharedBuffer(
        Type::buffer(DType::f32, kLanes, {placesAcross() * fours()}, BufMode::shared), "partial");
    shrink_ = kernel_.sharedBuffer(Type::buffer(DType::f32, kLanes, {fours()}, BufMode::shared), "shrink");
    addSum(0, otherGrad_, p_);
  } else {
    addSum(0, otherScore_, ds_);
    if (forKeys_) addSum(1, otherGrad_, p_);
  }
}

SharedAttention::TurnedTile SharedAttention::turned(int which, const char* name) {
  const int64_t width = r_.op->in(which)->type.shape.back();
  return {which, width,
          kernel_.sharedBuffer(Type::buffer(DType::f32, kLanes, {width * fours()}, BufMode::shared), name)};
}

SharedAttention::RowTile SharedAttention::rowTile(int which, const char* name) {
  const int64_t width = r_.op->in(which)->type.shape.back(), pitch = AttentionBlocking::pitch(width);
  return {which, width, pitch,
          kernel_.sharedBuffer(Type::buffer(DType::f32, kLanes, {b_.block * pitch}, BufMode::shared), name)};
}

void SharedAttention::addSum(int result, const RowTile& factor, Value* weights) {
  Sum& sum = sums_.emplace_back();
  sum.result = result, sum.factor = &factor, sum.weights = weights;
  sum.placesAcross = b_.resultPlaces(factor.width);
  sum.placesDown = b_.invocations() / sum.placesAcross;
  sum.fours = fours() / sum.placesDown;
  sum.quads = factor.width / kLanes / sum.placesAcross;
  sum.place = placeOf(c_.space, lane_, sum.placesDown, sum.placesAcross);
}

KV SharedAttention::element(int which, const Index& row, const Index& column) {
  Indices at = lead_;
  at.push_back(row);
  at.push_back(column);
  return c_.emitter.emit(r_.op->in(which), at);
}

KV SharedAttention::scalar(int which, const Index& row) {
  Indices at = lead_;
  at.push_back(row);
  return c_.emitter.emit(r_.op->in(which), at);
}

KV SharedAttention::numbers(int which, const Index& four) {
  std::vector<KV> out;
  for (int64_t lane = 0; lane < kLanes; ++lane) {
    Index row = c_.space.add(c_.space.add(first_, c_.space.scale(four, kLanes)), IndexSpace::constant(lane));
    out.push_back(scalar(which, inside(row, ownRows())));
  }
  return kernel_.vec(out);
}

/// Neighbours take neighbouring elements of a row, each those of four rows.
void SharedAttention::fill(const TurnedTile& tile) {
  const bool scales = tile.which == ownScore_.which;
  StagingTasks(c_, tile.width * fours(), b_.invocations(), lane_).store([&](const Index& task) {
    Index d = c_.space.mod(task, tile.width), four = c_.space.div(task, tile.width);
    std::vector<KV> lanes;
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      Index row =
          c_.space.add(c_.space.add(first_, c_.space.scale(four, kLanes)), IndexSpace::constant(lane));
      lanes.push_back(element(tile.which, inside(row, ownRows()), d));
    }
    KV value = kernel_.vec(lanes);
    if (scales) value = kernel_.mul(value, kernel_.splat(r_.scale));
    kernel_.store(value, tile.buffer, at(d, fours(), four));
  });
}

SharedAttention::Fours SharedAttention::load(const RowTile& tile, const KV& round) {
  Fours out;
  const int64_t perRow = tile.width / kLanes;
  Index start = c_.space.scale(c_.space.variable(round, otherBlocks_), b_.block);
  StagingTasks(c_, b_.block * perRow, b_.invocations(), lane_).load([&](const Index& task) {
    Index row = inside(c_.space.add(start, c_.space.div(task, perRow)), otherRows());
    Index column = c_.space.add(c_.space.scale(c_.space.mod(task, perRow), kLanes), IndexSpace::lane());
    out.push_back(kernel_.widened(element(tile.which, row, column), kFour));
  });
  return out;
}

void SharedAttention::store(const RowTile& tile, std::span<const KV> loaded) {
  const int64_t perRow = tile.width / kLanes;
  size_t next = 0;
  StagingTasks(c_, b_.block * perRow, b_.invocations(), lane_).store([&](const Index& task) {
    kernel_.store(loaded[next++], tile.buffer,
                  at(c_.space.div(task, perRow), tile.pitch, c_.space.mod(task, perRow)));
  });
}

SharedAttention::Fours SharedAttention::scores(const TurnedTile& own, const RowTile& other) {
  // Written out whole for heads of 64, and the sums' loop in part: 10 % faster on an H200 than both in part,
  // and a third than both whole.
  const int64_t deep = own.width / kLanes, chunk = divisor(deep, {16, 12, 8, 4, 3, 2, 1});
  Fours zero(static_cast<size_t>(b_.columns * ownFours()), kernel_.splat(KernelBuilder::f32(0)));
  auto step = [&](const KV& round, std::vector<KV> acc) {
    for (int64_t part = 0; part < chunk; ++part) {
      Index quad = c_.space.add(c_.space.scale(c_.space.variable(round, deep / chunk), chunk),
                                IndexSpace::constant(part));
      Fours theirs, ours;
      for (int64_t column = 0; column < b_.columns; ++column)
        theirs.push_back(kernel_.loadHere(other.buffer, at(otherInBlock(column), other.pitch, quad)));
      for (int64_t d = 0; d < kLanes; ++d)
        for (int64_t four = 0; four < ownFours(); ++four) {
          Index element = c_.space.add(c_.space.scale(quad, kLanes), IndexSpace::constant(d));
          ours.push_back(kernel_.loadHere(own.buffer, at(element, fours(), ownFour(four))));
        }
      for (int64_t d = 0; d < kLanes; ++d)
        for (int64_t column = 0; column < b_.columns; ++column)
          for (int64_t four = 0; four < ownFours(); ++four) {
            KV& sum = acc[static_cast<size_t>(column * ownFours() + four)];
            sum = kernel_.fma(ours[static_cast<size_t>(d * ownFours() + four)],
                              kernel_.extract(theirs[static_cast<size_t>(column)], static_cast<int>(d)), sum);
          }
    }
    return acc;
  };
  kernel_.hint("part");
  return kernel_.loop(kernel_.depth(), KernelBuilder::u32(0), deep / chunk, 1, zero, step);
}

void SharedAttention::addUp(const Sum& sum, std::span<KV> acc) {
  const int64_t chunk = divisor(b_.block, {8, 4, 2, 1});
  std::vector<KV> init(acc.begin(), acc.end());
  kernel_.hint("part");
  std::vector<KV> out = kernel_.loop(
      kernel_.depth(), KernelBuilder::u32(0), b_.block / chunk, 1, init,
      [&](const KV& round, std::vector<KV> now) {
        for (int64_t part = 0; part < chunk; ++part) {
          Index other = c_.space.add(c_.space.scale(c_.space.variable(round, b_.block / chunk), chunk),
                                     IndexSpace::constant(part));
          Fours ours, theirs;
          for (int64_t four = 0; four < sum.fours; ++four)
            ours.push_back(kernel_.loadHere(
                sum.weights, at(other, fours(),
                                c_.space.add(sum.place.row, IndexSpace::constant(four * sum.placesDown)))));
          for (int64_t quad = 0; quad < sum.quads; ++quad)
            theirs.push_back(kernel_.loadHere(
                sum.factor->buffer,
                at(other, sum.factor->pitch,
                   c_.space.add(sum.place.column, IndexSpace::constant(quad * sum.placesAcross)))));
          for (int64_t row = 0; row < sum.fours * kLanes; ++row)
            for (int64_t quad = 0; quad < sum.quads; ++quad) {
              KV& each = now[static_cast<size_t>(row * sum.quads + quad)];
              each = kernel_.fma(
                  kernel_.extract(ours[static_cast<size_t>(row / kLanes)], static_cast<int>(row % kLanes)),
                  theirs[static_cast<size_t>(quad)], each);
            }
        }
        return now;
      });
  std::copy(out.begin(), out.end(), acc.begin());
}

KV SharedAttention::visible(const Index& ownFour, const Index& other) {
  KV seen = KernelBuilder::literal(DType::i1, 1);
  Index own = c_.space.add(c_.space.add(first_, c_.space.scale(ownFour, kLanes)), IndexSpace::lane());
  auto compare = [&](Opcode code, const Index& a, const Index& b) {
    return kernel_.op(code, {kernel_.splat(c_.space.materialize(a)), kernel_.splat(c_.space.materialize(b))},
                      DType::i1);
  };
  if (c_.space.max(other) >= otherRows())
    seen = compare(Opcode::k_lt, other, IndexSpace::constant(otherRows()));
  if (!r_.causal) return seen;
  // key <= query + ahead, the difference on the side where it is not negative.
  const int64_t ahead = r_.keys - r_.queries;
  auto shifted = [&](const Index& index, int64_t by) {
    return c_.space.add(index, IndexSpace::constant(std::max<int64_t>(by, 0)));
  };
  KV before =
      compare(Opcode::k_le, shifted(forKeys_ ? own : other, -ahead), shifted(forKeys_ ? other : own, ahead));
  return seen.isLiteral() ? before : kernel_.op(Opcode::k_and, {seen, before}, DType::i1);
}

void SharedAttention::putWeights(Value* buffer, const Fours& values) {
  for (int64_t column = 0; column < b_.columns; ++column)
    for (int64_t four = 0; four < ownFours(); ++four)
      kernel_.store(values[static_cast<size_t>(column * ownFours() + four)], buffer,
                    at(otherInBlock(column), fours(), ownFour(four)));
}

void SharedAttention::softmax(Fours& s, std::span<KV> largest, std::span<KV> total, const KV& round) {
  const KV lowest = kernel_.splat(KernelBuilder::f32(-std::numeric_limits<float>::max()));
  const KV zero = kernel_.splat(KernelBuilder::f32(0));
  const bool emptyRows = r_.causal && r_.queries > r_.keys;
  auto f32 = [&](Opcode code, const KV& a, const KV& b) { return kernel_.op(code, {a, b}, DType::f32); };
  std::vector<KV> seen;
  for (int64_t four = 0; four < ownFours(); ++four) {
    KV most;
    for (int64_t column = 0; column < b_.columns; ++column) {
      KV& score = s[static_cast<size_t>(column * ownFours() + four)];
      seen.push_back(visible(ownFour(four), otherRow(round, column)));
      score = kernel_.select(seen.back(), score, lowest);
      most = column == 0 ? score : f32(Opcode::k_max, most, score);
    }
    kernel_.store(most, partial_, at(place_.column, fours(), ownFour(four)));
  }
  kernel_.barrier();
  KV isFirst =
      kernel_.op(Opcode::k_eq, {c_.space.materialize(place_.column), KernelBuilder::u32(0)}, DType::i1);
  size_t next = 0;
  for (int64_t four = 0; four < ownFours(); ++four) {
    KV &m = largest[static_cast<size_t>(four)], &l = total[static_cast<size_t>(four)], top = m;
    for (int64_t part = 0; part < placesAcross(); ++part)
      top = f32(Opcode::k_max, top,
                kernel_.loadHere(partial_, at(IndexSpace::constant(part), fours(), ownFour(four))));
    KV shrink = kernel_.op(Opcode::k_exp, {f32(Opcode::k_sub, m, top)}, DType::f32);
    m = top, l = kernel_.mul(l, shrink);
    for (int64_t column = 0; column < b_.columns; ++column) {
      KV& p = s[static_cast<size_t>(column * ownFours() + four)];
      p = kernel_.op(Opcode::k_exp, {f32(Opcode::k_sub, p, top)}, DType::f32);
      // A row that has seen nothing yet has the lowest maximum, against which a masked score is no less.
      if (emptyRows) p = kernel_.select(seen[next], p, zero);
      ++next;
      l = kernel_.add(l, p);
    }
    kernel_.guard(isFirst, [&] { kernel_.store(shrink, shrink_, c_.space.materialize(ownFour(four))); });
  }
  putWeights(p_, s);
}

void SharedAttention::gradients(Fours& s, const Fours& dp, const KV& round) {
  const KV zero = kernel_.splat(KernelBuilder::f32(0));
  Fours ds(s.size());
  for (int64_t column = 0; column < b_.columns; ++column) {
    const Index other = otherRow(round, column);
    KV lse, delta;
    if (forKeys_) {
      const Index row = inside(other, otherRows());
      lse = kernel_.splat(scalar(3, row)), delta = kernel_.splat(scalar(4, row));
    }
    for (int64_t four = 0; four < ownFours(); ++four) {
      const size_t at = static_cast<size_t>(column * ownFours() + four);
      if (!forKeys_) lse = lse_[static_cast<size_t>(four)], delta = delta_[static_cast<size_t>(four)];
      KV p = kernel_.op(Opcode::k_exp, {kernel_.op(Opcode::k_sub, {s[at], lse}, DType::f32)}, DType::f32);
      s[at] = kernel_.select(visible(ownFour(four), other), p, zero);
      ds[at] = kernel_.mul(s[at], kernel_.op(Opcode::k_sub, {dp[at], delta}, DType::f32));
    }
  }
  if (forKeys_) putWeights(p_, s);
  putWeights(ds_, ds);
}

void SharedAttention::storeSum(const Sum& sum, std::span<const KV> acc) {
  const Value* value = r_.op->result(sum.result);
  const int64_t width = value->type.shape.back();
  for (int64_t row = 0; row < sum.fours * kLanes; ++row) {
    Index four = c_.space.add(sum.place.row, IndexSpace::constant(row / kLanes * sum.placesDown));
    Index own =
        c_.space.add(c_.space.add(first_, c_.space.scale(four, kLanes)), IndexSpace::constant(row % kLanes));
    c_.emitter.whereInside(own, ownRows(), IndexSpace::constant(0), 1, [&](const Index& in, const Index&) {
      Index start = c_.space.scale(c_.space.add(c_.space.scale(batch_, ownRows()), in), width);
      for (int64_t quad = 0; quad < sum.quads; ++quad) {
        Index column = c_.space.scale(
            c_.space.add(sum.place.column, IndexSpace::constant(quad * sum.placesAcross)), kLanes);
        storeAttention(c_, value, c_.space.add(c_.space.add(start, column), IndexSpace::lane()),
                       acc[static_cast<size_t>(row * sum.quads + quad)]);
      }
    });
  }
}

/// The sums over the rows' own invocations, by which the mixture is divided; log-sum-exp of each row.
void SharedAttention::finishForward(std::span<KV> largest, std::span<KV> total, std::span<KV> acc) {
  const bool emptyRows = r_.causal && r_.queries > r_.keys;
  const KV zero = kernel_.splat(KernelBuilder::f32(0)), one = kernel_.splat(KernelBuilder::f32(1));
  KV isFirst =
      kernel_.op(Opcode::k_eq, {c_.space.materialize(place_.column), KernelBuilder::u32(0)}, DType::i1);
  for (int64_t four = 0; four < ownFours(); ++four)
    kernel_.store(total[static_cast<size_t>(four)], partial_, at(place_.column, fours(), ownFour(four)));
  kernel_.barrier();
  auto wholeOf = [&](const Index& four) {
    KV sum;
    for (int64_t part = 0; part < placesAcross(); ++part) {
      KV own = kernel_.loadHere(partial_, at(IndexSpace::constant(part), fours(), four));
      sum = part == 0 ? own : kernel_.add(sum, own);
    }
    return sum;
  };
  auto divisorOf = [&](const KV& whole) {
    if (!emptyRows) return whole;
    return kernel_.select(kernel_.op(Opcode::k_gt, {whole, zero}, DType::i1), whole, one);
  };
  if (r_.op->results.size() > 1)
    kernel_.guard(isFirst, [&] {
      for (int64_t four = 0; four < ownFours(); ++four) {
        KV whole = wholeOf(ownFour(four));
        KV lse = kernel_.add(largest[static_cast<size_t>(four)],
                             kernel_.op(Opcode::k_log, {divisorOf(whole)}, DType::f32));
        if (emptyRows) lse = kernel_.select(kernel_.op(Opcode::k_gt, {whole, zero}, DType::i1), lse, zero);
        for (int64_t lane = 0; lane < kLanes; ++lane) {
          Index own = c_.space.add(c_.space.add(first_, c_.space.scale(ownFour(four), kLanes)),
                                   IndexSpace::constant(lane));
          c_.emitter.whereInside(
              own, ownRows(), IndexSpace::constant(0), 1, [&](const Index& in, const Index&) {
                storeAttention(c_, r_.op->result(1), c_.space.add(c_.space.scale(batch_, ownRows()), in),
                               kernel_.extract(lse, static_cast<int>(lane)));
              });
        }
      }
    });
  const Sum& sum = sums_[0];
  for (int64_t four = 0; four < sum.fours; ++four) {
    KV whole = divisorOf(wholeOf(c_.space.add(sum.place.row, IndexSpace::constant(four * sum.placesDown))));
    KV share = kernel_.op(Opcode::k_div, {one, whole}, DType::f32);
    for (int64_t lane = 0; lane < kLanes; ++lane)
      for (int64_t quad = 0; quad < sum.quads; ++quad) {
        KV& each = acc[static_cast<size_t>((four * kLanes + lane) * sum.quads + quad)];
        each = kernel_.mul(each, kernel_.splat(kernel_.extract(share, static_cast<int>(lane))));
      }
  }
  storeSum(sum, acc);
}

void SharedAttention::emit(const Index& group) {
  batch_ = c_.space.mod(group, r_.batch);
  first_ = r_.firstRow(c_, group, b_.rows, forKeys_);
  lead_ = c_.space.delinear(batch_, r_.lead);
  fill(ownScore_);
  if (!isForward()) fill(ownGrad_);
  if (!isForward() && !forKeys_)
    for (int64_t four = 0; four < ownFours(); ++four) {
      lse_.push_back(numbers(3, ownFour(four)));
      delta_.push_back(numbers(4, ownFour(four)));
    }
  auto [from, to] = r_.blocks(c_, first_, b_.rows, b_.block, forKeys_);
  KV last = KernelBuilder::u32(otherBlocks_ - 1);
  // Carried: what is loaded for the next step, the rows' maxima and sums (forward), the results.
  std::vector<KV> carried = load(otherScore_, kernel_.op(Opcode::k_min, {from, last}, DType::u32));
  const size_t first = carried.size();
  for (const KV& each : load(otherGrad_, kernel_.op(Opcode::k_min, {from, last}, DType::u32)))
    carried.push_back(each);
  const size_t loads = carried.size(), stats = isForward() ? static_cast<size_t>(ownFours()) : 0;
  for (size_t i = 0; i < stats; ++i)
    carried.push_back(kernel_.splat(KernelBuilder::f32(-std::numeric_limits<float>::max())));
  carried.resize(loads + 2 * stats, kernel_.splat(KernelBuilder::f32(0)));
  for (const Sum& sum : sums_)
    carried.resize(carried.size() + sum.size(), kernel_.splat(KernelBuilder::f32(0)));
  kernel_.hint("block");
  carried = kernel_.loop(kernel_.depth(), from, to, 1, carried, [&](const KV& round, std::vector<KV> now) {
    const std::span<KV> all(now);
    store(otherScore_, all.first(first));
    store(otherGrad_, all.subspan(first, loads - first));
    kernel_.barrier();
    // The last step loads its own rows again: a branch would wait for the loads.
    KV next = kernel_.op(Opcode::k_min, {kernel_.add(round, KernelBuilder::u32(1)), last}, DType::u32);
    Fours loaded = load(otherScore_, next);
    for (const KV& each : load(otherGrad_, next)) loaded.push_back(each);
    Fours s = scores(ownScore_, otherScore_);
    if (isForward()) {
      softmax(s, all.subspan(loads, stats), all.subspan(loads + stats, stats), round);
    } else {
      gradients(s, scores(ownGrad_, otherGrad_), round);
    }
    kernel_.barrier();
    size_t begin = loads + 2 * stats;
    for (const Sum& sum : sums_) {
      std::span<KV> acc = all.subspan(begin, sum.size());
      begin += sum.size();
      for (int64_t four = 0; isForward() && four < sum.fours; ++four) {
        KV shrink = kernel_.loadHere(
            shrink_,
            c_.space.materialize(c_.space.add(sum.place.row, IndexSpace::constant(four * sum.placesDown))));
        for (int64_t lane = 0; lane < kLanes; ++lane)
          for (int64_t quad = 0; quad < sum.quads; ++quad) {
            KV& each = acc[static_cast<size_t>((four * kLanes + lane) * sum.quads + quad)];
            each = kernel_.mul(each, kernel_.splat(kernel_.extract(shrink, static_cast<int>(lane))));
          }
      }
      addUp(sum, acc);
    }
    kernel_.barrier();
    std::copy(loaded.begin(), loaded.end(), now.begin());
    return now;
  });
  const std::span<KV> all(carried);
  if (isForward())
    return finishForward(all.subspan(loads, stats), all.subspan(loads + stats, stats),
                         all.subspan(loads + 2 * stats));
  size_t begin = loads;
  for (const Sum& sum : sums_) {
    std::span<KV> acc = all.subspan(begin, sum.size());
    begin += sum.size();
    // The own side's rows were scaled as they were staged; what multiplies the other side's is not.
    if (sum.weights == ds_)
      for (KV& each : acc) each = kernel_.mul(each, kernel_.splat(r_.scale));
    storeSum(sum, acc);
  }
}

}  // namespace

Result<void> lowerKernel(LowerContext& c, const SharedAttentionSchedule& schedule) {
  return lowerByGroups<SharedAttention>(c, AttentionBlocking(schedule));
}

}  // namespace tg
