// SPDX-License-Identifier: Apache-2.0
// The loop of attention by blocks; see tile_attention.h.
#include "codegen/tile_attention.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "ir/access.h"
#include "ir/attention_parts.h"
#include "ir/divide.h"
#include "ir/op_view.h"

namespace tg {

Result<AttentionRegion> AttentionRegion::of(const LowerContext& c) {
  AttentionRegion out;
  for (const Op* op : c.region.body.ops)
    if (op->info().fusion == table::Fusion::attention && op->code != Opcode::attention_grad) out.op = op;
  if (!out.op)
    return failAt(c.fused.loc,
                  "schedule {} is for regions of tg.attention, tg.attention_grad_q or tg.attention_grad_kv",
                  c.schedule.str());
  out.lead = out.op->in(0)->type.shape;
  const Shape& k = as::attention(*out.op).k()->type.shape;
  out.queries = out.lead[out.lead.rank() - 2], out.keys = k[k.rank() - 2];
  out.causal = as::attention(*out.op).causal();
  double scale = as::attention(*out.op).scale();
  if (scale == 0) scale = 1.0 / std::sqrt(static_cast<double>(out.lead.back()));
  out.scale = KernelBuilder::f32(scale).number;
  out.bias = biasOf(*out.op), out.keep = keepOf(*out.op);
  out.keepShare = 1 - as::attention(*out.op).p();
  out.lead.resize(out.lead.rank() - 2);
  out.batch = out.lead.elements();
  out.forKeys = out.op->code == Opcode::attention_grad_kv;
  out.own = {out.forKeys ? Of::k : Of::q, out.forKeys ? Of::v : Of::dout};
  out.other = {out.forKeys ? Of::q : Of::k, out.forKeys ? Of::dout : Of::v};
  out.sums = {{0, out.isForward()}};
  if (out.forKeys) out.sums.push_back({1, true});
  return out;
}

Index AttentionRegion::firstRow(LowerContext& c, const Index& group, int64_t rows) const {
  const int64_t tiles = divideCeil(ownRows(), rows);
  Index tile = c.space.div(group, batch);
  if (causal && !forKeys) tile = c.space.add(IndexSpace::constant(tiles - 1), c.space.scale(tile, -1));
  return c.space.scale(tile, rows);
}

/// Query i sees the keys up to i + ahead, with ahead = keys - queries.
std::pair<KV, KV> AttentionRegion::blocks(LowerContext& c, const Index& first, int64_t rows,
                                          int64_t block) const {
  const int64_t others = divideCeil(otherRows(), block), ahead = keys - queries;
  const KV from = KernelBuilder::u32(0), to = KernelBuilder::u32(others);
  if (!causal) return {from, to};
  auto u32 = [&](Opcode code, const KV& a, int64_t b) {
    return c.kernel.op(code, {a, KernelBuilder::u32(b)}, DType::u32);
  };
  if (forKeys) {  // the first query that sees the first key
    KV key = c.space.materialize(first);
    KV query = ahead <= 0 ? u32(Opcode::k_add, key, -ahead)
                          : u32(Opcode::k_sub, u32(Opcode::k_max, key, ahead), ahead);
    return {u32(Opcode::k_div, query, block), to};
  }
  // The keys that the last query sees: those before last + 1 + ahead.
  KV behind =
      u32(Opcode::k_min, c.space.materialize(c.space.add(first, IndexSpace::constant(rows))), queries);
  KV seen = ahead >= 0 ? u32(Opcode::k_add, behind, ahead)
                       : u32(Opcode::k_sub, u32(Opcode::k_max, behind, -ahead), -ahead);
  return {from, u32(Opcode::k_div, u32(Opcode::k_add, seen, block - 1), block)};
}

void storeAttention(LowerContext& c, const Value* result, const Index& offset, const KV& value,
                    const KV* following) {
  const Index second = c.space.add(offset, IndexSpace::constant(kLanes));
  c.emitter.define(result, c.space.delinear(offset, result->type.shape), value);
  if (following) c.emitter.define(result, c.space.delinear(second, result->type.shape), *following);
  for (size_t slot = 0; slot < c.region.yields.size(); ++slot) {
    const Value* yield = c.region.yields[slot];
    if (throughCasts(yield) != result) continue;
    const int place = static_cast<int>(slot);
    if (following && isNarrow(yield->type.dtype)) {
      c.emitter.storeWords(place, offset);
      continue;
    }
    c.emitter.store(place, offset);
    if (following) c.emitter.store(place, second);
  }
}

AttentionWalk::AttentionWalk(LowerContext& c, const AttentionRegion& region, Division division)
    : c_(c), kernel_(c.kernel), r_(region), d_(division), exponent_(region.scale * std::numbers::log2e),
      otherBlocks_(divideCeil(region.otherRows(), division.block)),
      lane_(division.vector == 0
                ? Index{}
                : c.space.variable(c.kernel.id(Opcode::k_local_id, 0), division.invocations)) {}

KV AttentionWalk::element(int operand, const Index& row, const Index& column) {
  Indices at = lead_;
  at.push_back(row);
  at.push_back(column);
  return c_.emitter.emit(r_.op->in(operand), at);
}

/// The element of an operand of rank one less, such as lse or delta, for a query.
KV AttentionWalk::number(int operand, const Index& row) {
  Indices at = lead_;
  at.push_back(row);
  return c_.emitter.emit(r_.op->in(operand), at);
}

/// Loads this invocation's vectors of `count` rows from `first` on; rows behind the operand's end are clamped.
std::vector<KV> AttentionWalk::loadRows(int operand, const Index& first, int64_t count, int64_t extent) {
  std::vector<KV> out;
  const int64_t perRow = r_.width(operand) / d_.vector;
  tasks(count * perRow).load([&](const Index& task) {
    const Index row = inside(c_.space.add(first, c_.space.div(task, perRow)), extent);
    for (const KV& value : vectorOf(operand, row, c_.space.mod(task, perRow))) out.push_back(value);
  });
  return out;
}

/// Stages what loadRows loaded; returns the rest.
std::span<const KV> AttentionWalk::storeRows(std::span<const KV> loaded, int operand, int64_t count) {
  const int64_t perRow = r_.width(operand) / d_.vector;
  tasks(count * perRow).store([&](const Index& task) {
    stage(operand, c_.space.div(task, perRow), c_.space.mod(task, perRow), loaded.first(d_.values));
    loaded = loaded.subspan(d_.values);
  });
  return loaded;
}

std::vector<KV> AttentionWalk::loadBlock(const Index& block) {
  std::vector<KV> out;
  if (d_.vector == 0) return out;
  for (int operand : r_.other)
    for (const KV& each : loadRows(operand, firstOf(block), d_.block, r_.otherRows())) out.push_back(each);
  return out;
}

std::span<const KV> AttentionWalk::storeBlock(std::span<const KV> loaded) {
  if (d_.vector == 0) return loaded;
  for (int operand : r_.other) loaded = storeRows(loaded, operand, d_.block);
  return loaded;
}

AttentionWalk::Parts AttentionWalk::maskedScores(int64_t from, bool masked) {
  Parts out;
  for (int64_t column = from; column < from + d_.weighed; column += d_.atOnce) {
    const Parts s = scores(0, column);
    for (int64_t k = 0; k < std::ssize(s); ++k) {
      const int64_t i = k % d_.down, j = column + k / d_.down;
      KV score = biased(s[k], i, j);
      score = kernel_.select(visible(i, j), score, lowest());
      out.push_back(masked ? hide(score, i, j) : score);
    }
  }
  return out;
}

/// Which own and other rows see each other, four own rows at a time if `own` has lanes.
KV AttentionWalk::sees(const Index& own, const Index& other) {
  const int lanes = IndexSpace::usesLane(own) ? kLanes : 1;
  KV seen = KernelBuilder::literal(DType::i1, 1);
  auto compare = [&](Opcode code, const Index& a, const Index& b) {
    return kernel_.op(code, {kernel_.splat(at(a), lanes), kernel_.splat(at(b), lanes)}, DType::i1);
  };
  if (c_.space.max(other) >= r_.otherRows())
    seen = compare(Opcode::k_lt, other, IndexSpace::constant(r_.otherRows()));
  if (!r_.causal) return seen;
  // key <= query + ahead; `ahead` is added on the side where it is not negative.
  const int64_t ahead = r_.keys - r_.queries;
  const KV before = compare(Opcode::k_le, plus(r_.forKeys ? own : other, std::max<int64_t>(-ahead, 0)),
                            plus(r_.forKeys ? other : own, std::max<int64_t>(ahead, 0)));
  return kernel_.op(Opcode::k_and, {seen, before}, DType::i1);
}

KV AttentionWalk::divisorOf(const KV& total) {
  return r_.hasEmptyRows() ? kernel_.select(isPositive(total), total, one()) : total;
}

KV AttentionWalk::logSumExp(const KV& largest, const KV& total) {
  const KV lse = kernel_.add(largest, kernel_.op(Opcode::k_log, {divisorOf(total)}, DType::f32));
  return r_.hasEmptyRows() ? kernel_.select(isPositive(total), lse, zero()) : lse;
}

void AttentionWalk::rescale(size_t row, const KV& by, std::span<KV> sums) {
  const size_t width = sums.size() / static_cast<size_t>(d_.down);
  for (KV& each : sums.subspan(row * width, width)) each = kernel_.mul(each, by);
}

/// The online softmax: for each row, raises the maximum, rescales the sums by e^(m_old - m), and turns the scores
/// into weights e^(s - m).
void AttentionWalk::weigh(int64_t, Parts& scores, std::span<KV> largest, std::span<KV> total,
                          std::span<KV> sums) {
  const auto rows = static_cast<size_t>(d_.down), columns = scores.size() / rows;
  for (size_t i = 0; i < rows; ++i) {
    const KV top = largestOf(i, largest[i], scores);
    const KV shrink = power(sub(largest[i], top));
    largest[i] = top;
    total[i] = kernel_.mul(total[i], shrink);
    for (size_t j = 0; j < columns; ++j) {
      KV& each = scores[j * rows + i];
      each = power(sub(each, top));
      // A row that has seen no key has the lowest maximum, and a hidden score equals it: its weight would be 1, not
      // 0.
      if (r_.hasEmptyRows())
        each = kernel_.select(visible(static_cast<int64_t>(i), static_cast<int64_t>(j)), each, zero());
      total[i] = kernel_.add(total[i], each);
    }
    rescale(i, shrink, sums);
  }
}

void AttentionWalk::forwardStep(std::span<KV> state, bool masked) {
  const auto rows = static_cast<size_t>(d_.down);
  const std::span<KV> sums = state.subspan(2 * rows);
  for (int64_t from = 0; from < d_.across; from += d_.weighed) {
    Parts p = maskedScores(from, masked);
    weigh(from, p, state.first(rows), state.subspan(rows, rows), sums);
    for (int64_t column = 0; column < d_.weighed; column += d_.atOnce) {
      Parts weights;
      for (int64_t k = column * d_.down; k < (column + d_.atOnce) * d_.down; ++k)
        weights.push_back(factor(kept(p[k], k % d_.down, from + k / d_.down)));
      addProducts(from + column, weights, {}, sums);
    }
  }
}

KV AttentionWalk::weightsOf(const KV& scores, const KV& lse, int64_t row, int64_t column, bool masked) {
  KV score = biased(scores, row, column);
  if (masked) score = hide(score, row, column);
  KV exponent = sub(exponentOf(score), lse);
  // Weights are at most 2^lift. Those of a row without a visible score, whose lse has no digits for them, count as 0.
  if (r_.bias) {
    const double least = kLeastLse * (d_.powersOfTwo ? std::numbers::log2e : 1);
    const KV hidden = kernel_.op(Opcode::k_lt, {lse, KernelBuilder::f32(least)}, DType::i1);
    const KV most = kernel_.select(hidden, KernelBuilder::f32(-1e30), KernelBuilder::f32(d_.lift));
    exponent = f32(Opcode::k_min, exponent, most);
  }
  return kernel_.select(visible(row, column), power(exponent), zero());
}

KV AttentionWalk::gradientsOf(const KV& weights, const KV& ofWeights, const KV& delta, int64_t row,
                              int64_t column) {
  const KV grad = d_.powersOfTwo ? scaled(ofWeights, r_.scale / r_.keepShare) : ofWeights;
  return kernel_.mul(weights, sub(kept(grad, row, column), delta));
}

/// For each column of parts: p = e^(s - lse), ds = p·(dp - delta), where s and dp are the scores of the two pairs
/// of operands; then the products of p and ds with the block's rows.
void AttentionWalk::gradientStep(std::span<KV> sums, bool masked) {
  for (int64_t column = 0; column < d_.across; column += d_.atOnce) {
    const Parts s = scores(0, column), dp = scores(1, column);
    Parts p, ds;
    for (int64_t k = 0; k < d_.atOnce * d_.down; ++k) {
      const int64_t i = k % d_.down, j = column + k / d_.down;
      const auto [lse, delta] = r_.forKeys ? statistics(j) : std::pair(lse_[i], delta_[i]);
      const KV weights = weightsOf(s[k], lse, i, j, masked);
      ds.push_back(factor(gradientsOf(weights, dp[k], delta, i, j)));
      if (r_.forKeys) p.push_back(factor(kept(weights, i, j)));
    }
    addProducts(column, p, ds, sums);
  }
}

/// The state that the loops carry: forward, the rows' maxima and the sums of their weights; then the parts of all
/// results, one result after another.
void AttentionWalk::emit(const Index& batch, const Index& first) {
  batch_ = batch;
  first_ = first;
  lead_ = c_.space.delinear(batch_, r_.lead);
  begin();
  const auto [from, to] = r_.blocks(c_, first_, d_.rows, d_.block);
  const std::vector<Range> loops = ranges(from, to);
  const KV last = KernelBuilder::u32(otherBlocks_ - 1);
  const KV start = d_.vector == 0 ? from : kernel_.op(Opcode::k_min, {from, last}, DType::u32);
  Pipeline pipeline(
      c_, otherBlocks_, start, [&](const Index& block) { return loadBlock(block); },
      [&](std::span<const KV> loaded) { storeBlock(loaded); });
  const size_t rows = r_.isForward() ? static_cast<size_t>(d_.down) : 0;
  if (r_.isForward()) {
    pipeline.carry(lowest(), rows);
    pipeline.carry(zero(), rows);
  }
  for (const auto& sum : r_.sums) pipeline.carry(zeroOf(sum), partsOf(sum));
  pipeline.carry(loadsAhead(c_.space.variable(start, otherBlocks_)));
  for (const Range& range : loops) {
    if (d_.rolled) kernel_.rolled();
    pipeline.run("block", range.from, range.to, [&](const Index& block, std::span<KV> state) {
      block_ = block;
      if (r_.isForward())
        forwardStep(state, range.masked);
      else
        gradientStep(state, range.masked);
    });
  }
  std::span<KV> state = pipeline.state();
  if (r_.isForward())
    return finishForward(state.first(rows), state.subspan(rows, rows), state.subspan(2 * rows));
  for (size_t i = 0; i < r_.sums.size(); ++i) {
    const std::span<KV> own = state.first(partsOf(r_.sums[i]));
    state = state.subspan(own.size());
    // dq and dk are still to be multiplied by the scale, which ds lacks.
    if (!d_.powersOfTwo && !r_.sums[i].ofP)
      for (KV& each : own)
        each = kernel_.mul(each, kernel_.splat(KernelBuilder::f32(r_.scale), each.lanes()));
    storeSum(i, own);
  }
}

}  // namespace tg
