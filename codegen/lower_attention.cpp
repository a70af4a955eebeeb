// SPDX-License-Identifier: Apache-2.0
// Attention without its matrix of scores: each invocation holds a tile of rows in registers and walks the
// rows of the other side block by block. Forward, the softmax is kept up online (Milakov and Gimelshein
// 2018, Dao et al. 2022): a running maximum m, sum l and mixture, rescaled by e^(m_old - m) when a block
// raises the maximum. Backward, p = e^(s - lse) comes from the saved statistics. Causal blocks that nobody
// in the tile sees lie outside the loop's bounds.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "codegen/lower_attention.h"
#include "ir/op_view.h"

namespace tg {
namespace {

/// A row of a matrix: vectors of four, or scalars where four do not divide it.
using Row = std::vector<KV>;

class Attention {
 public:
  Attention(LowerContext& c, const AttentionSchedule& schedule, const AttentionRegion& region);
  Result<void> run();

 private:
  void forward(const Index& index);
  void gradQ(const Index& index);
  void gradKv(const Index& index);

  /// Row `at` of operand `which`.
  Row row(int which, const Index& at);
  /// The number that operand `which` has for a query.
  KV number(int which, const Index& query);
  KV dot(const Row& a, const Row& b);
  Row scaled(const Row& row, const KV& by);
  /// As many zeros as a row of operand `which` has parts.
  Row zeros(int which);
  /// Whether query `i` sees key `j`; a literal where there is no mask.
  KV sees(const Index& i, const Index& j);
  /// Blocks of keys that the last query of a tile needs; blocks of queries before the first that sees a key.
  KV keyBlocks(const Index& lastQuery);
  KV firstQueryBlock(const Index& firstKey);
  /// Sets the tile at hand and its place among the leading axes.
  void begin(const Index& index);
  void storeRow(int result, const Index& at, const Row& row);
  void storeNumber(int result, const Index& at, const KV& number);

  Index shifted(const Index& index, int64_t by) const {
    return c_.space.add(index, IndexSpace::constant(by));
  }
  KV exp(const KV& x) { return kernel_.op(Opcode::k_exp, {x}, DType::f32); }
  KV sub(const KV& a, const KV& b) { return kernel_.op(Opcode::k_sub, {a, b}, DType::f32); }

  LowerContext& c_;
  KernelBuilder& kernel_;
  const Op& op_;
  int64_t tile_, block_, workgroup_;
  int64_t queries_, keys_, batch_;
  bool forKeys_, causal_;
  KV scale_;
  Shape leadShape_;
  Indices lead_;  ///< of the tile at hand
  Index batchAt_, first_;
};

Attention::Attention(LowerContext& c, const AttentionSchedule& schedule, const AttentionRegion& region)
    : c_(c), kernel_(c.kernel), op_(*region.op), tile_(schedule.tile), block_(schedule.block),
      workgroup_(schedule.workgroup), queries_(region.queries), keys_(region.keys), batch_(region.batch),
      forKeys_(op_.code == Opcode::attention_grad_kv), causal_(region.causal), scale_(region.scale),
      leadShape_(region.lead) {}

Row Attention::row(int which, const Index& at) {
  const Value* operand = op_.in(which);
  int64_t width = operand->type.shape.back();
  bool vector = width % kLanes == 0;
  Row out;
  for (int64_t part = 0; part < width; part += vector ? kLanes : 1) {
    Index column = IndexSpace::constant(part);
    if (vector) column = c_.space.add(column, IndexSpace::lane());
    Indices element = lead_;
    element.push_back(at);
    element.push_back(column);
    out.push_back(c_.emitter.emit(operand, element));
  }
  return out;
}

KV Attention::number(int which, const Index& query) {
  Indices element = lead_;
  element.push_back(query);
  return c_.emitter.emit(op_.in(which), element);
}

KV Attention::dot(const Row& a, const Row& b) {
  KV sum = kernel_.mul(a[0], b[0]);
  for (size_t i = 1; i < a.size(); ++i) sum = kernel_.fma(a[i], b[i], sum);
  if (sum.lanes() == 1) return sum;
  KV x = kernel_.extract(sum, 0), y = kernel_.extract(sum, 1), z = kernel_.extract(sum, 2),
     w = kernel_.extract(sum, 3);
  KV low = kernel_.add(x, y), high = kernel_.add(z, w);
  return kernel_.add(low, high);
}

Row Attention::scaled(const Row& row, const KV& by) {
  Row out;
  for (const KV& part : row) out.push_back(kernel_.mul(part, by));
  return out;
}

Row Attention::zeros(int which) {
  int64_t width = op_.in(which)->type.shape.back();
  KV zero = KernelBuilder::f32(0);
  if (width % kLanes) return Row(static_cast<size_t>(width), zero);
  return Row(static_cast<size_t>(width / kLanes), kernel_.splat(zero));
}

KV Attention::sees(const Index& i, const Index& j) {
  if (!causal_) return KernelBuilder::literal(DType::i1, 1);
  // j <= i + (S - T), the difference on the side where it is not negative.
  int64_t ahead = keys_ - queries_;
  KV key = c_.space.materialize(shifted(j, ahead < 0 ? -ahead : 0));
  KV limit = c_.space.materialize(shifted(i, ahead > 0 ? ahead : 0));
  return kernel_.op(Opcode::k_le, {key, limit}, DType::i1);
}

KV Attention::keyBlocks(const Index& lastQuery) {
  if (!causal_) return KernelBuilder::u32(keys_ / block_);
  int64_t ahead = keys_ - queries_;
  if (ahead >= 0) return c_.space.materialize(shifted(c_.space.div(shifted(lastQuery, ahead), block_), 1));
  KV query = c_.space.materialize(lastQuery);
  KV none = kernel_.op(Opcode::k_lt, {query, KernelBuilder::u32(-ahead)}, DType::i1);
  KV seen = kernel_.op(Opcode::k_sub, {query, KernelBuilder::u32(-ahead)}, DType::u32);
  KV blocks = kernel_.add(kernel_.op(Opcode::k_div, {seen, KernelBuilder::u32(block_)}, DType::u32),
                          KernelBuilder::u32(1));
  return kernel_.select(none, KernelBuilder::u32(0), blocks);
}

KV Attention::firstQueryBlock(const Index& firstKey) {
  if (!causal_) return KernelBuilder::u32(0);
  int64_t ahead = keys_ - queries_;
  if (ahead <= 0) return c_.space.materialize(c_.space.div(shifted(firstKey, -ahead), block_));
  KV key = c_.space.materialize(firstKey);
  KV early = kernel_.op(Opcode::k_lt, {key, KernelBuilder::u32(ahead)}, DType::i1);
  KV query = kernel_.op(Opcode::k_sub, {key, KernelBuilder::u32(ahead)}, DType::u32);
  return kernel_.select(early, KernelBuilder::u32(0),
                        kernel_.op(Opcode::k_div, {query, KernelBuilder::u32(block_)}, DType::u32));
}

void Attention::begin(const Index& index) {
  int64_t tiles = (forKeys_ ? keys_ : queries_) / tile_;
  batchAt_ = c_.space.div(index, tiles);
  first_ = c_.space.scale(c_.space.mod(index, tiles), tile_);
  lead_ = c_.space.delinear(batchAt_, leadShape_);
}

void Attention::storeRow(int result, const Index& at, const Row& row) {
  const Value* value = op_.result(result);
  const Shape& shape = value->type.shape;
  int64_t rows = shape[shape.rank() - 2], width = shape.back(),
          step = width / static_cast<int64_t>(row.size());
  Index start = c_.space.scale(c_.space.add(c_.space.scale(batchAt_, rows), at), width);
  for (size_t part = 0; part < row.size(); ++part) {
    Index offset = shifted(start, static_cast<int64_t>(part) * step);
    if (step == kLanes) offset = c_.space.add(offset, IndexSpace::lane());
    storeAttention(c_, value, offset, row[part]);
  }
}

void Attention::storeNumber(int result, const Index& at, const KV& number) {
  if (result >= static_cast<int>(op_.results.size())) return;
  storeAttention(c_, op_.result(result), c_.space.add(c_.space.scale(batchAt_, queries_), at), number);
}

void Attention::forward(const Index& index) {
  begin(index);
  const KV lowest = KernelBuilder::f32(-std::numeric_limits<float>::max());
  const bool emptyRows = causal_ && queries_ > keys_;
  const size_t count = static_cast<size_t>(tile_), width = zeros(2).size(), stride = width + 2;
  std::vector<Row> q;
  std::vector<KV> state;  // m, l and the mixture of each row
  for (int64_t r = 0; r < tile_; ++r) {
    q.push_back(scaled(row(0, shifted(first_, r)), scale_));
    state.push_back(lowest);
    state.push_back(KernelBuilder::f32(0));
    for (const KV& zero : zeros(2)) state.push_back(zero);
  }
  auto step = [&](const KV& round, std::vector<KV> now) {
    Index j0 = c_.space.scale(c_.space.variable(round, keys_ / block_), block_);
    std::vector<Row> scores(count);
    std::vector<std::vector<KV>> visible(count);
    for (int64_t b = 0; b < block_; ++b) {
      Row k = row(1, shifted(j0, b));
      for (size_t r = 0; r < count; ++r) {
        visible[r].push_back(sees(shifted(first_, static_cast<int64_t>(r)), shifted(j0, b)));
        scores[r].push_back(kernel_.select(visible[r].back(), dot(q[r], k), lowest));
      }
    }
    for (size_t r = 0; r < count; ++r) {
      KV *m = &now[r * stride], *l = m + 1, top = *m;
      for (const KV& score : scores[r]) top = kernel_.op(Opcode::k_max, {top, score}, DType::f32);
      KV keep = exp(sub(*m, top));
      *m = top, *l = kernel_.mul(*l, keep);
      for (size_t i = 0; i < width; ++i) m[2 + i] = kernel_.mul(m[2 + i], keep);
      for (size_t b = 0; b < scores[r].size(); ++b) {
        KV& p = scores[r][b];
        p = exp(sub(p, top));
        // A row that has seen nothing yet has the lowest maximum, against which a masked score is no less.
        if (emptyRows) p = kernel_.select(visible[r][b], p, KernelBuilder::f32(0));
        *l = kernel_.add(*l, p);
      }
    }
    for (int64_t b = 0; b < block_; ++b) {
      Row v = row(2, shifted(j0, b));
      for (size_t r = 0; r < count; ++r)
        for (size_t i = 0; i < width; ++i) {
          KV& mixed = now[r * stride + 2 + i];
          mixed = kernel_.fma(scores[r][static_cast<size_t>(b)], v[i], mixed);
        }
    }
    return now;
  };
  KV blocks = keyBlocks(shifted(first_, tile_ - 1));
  kernel_.hint("block");
  state = kernel_.loop(kernel_.depth(), KernelBuilder::u32(0), blocks, 1, state, step);
  for (size_t r = 0; r < count; ++r) {
    const KV &m = state[r * stride], &l = state[r * stride + 1];
    Index at = shifted(first_, static_cast<int64_t>(r));
    KV any = KernelBuilder::literal(DType::i1, 1);
    if (emptyRows) any = kernel_.op(Opcode::k_gt, {l, KernelBuilder::f32(0)}, DType::i1);
    KV total = kernel_.select(any, l, KernelBuilder::f32(1));
    Row mixed;
    for (size_t i = 0; i < width; ++i)
      mixed.push_back(kernel_.op(Opcode::k_div, {state[r * stride + 2 + i], total}, DType::f32));
    storeRow(0, at, mixed);
    KV lse = kernel_.add(m, kernel_.op(Opcode::k_log, {total}, DType::f32));
    storeNumber(1, at, kernel_.select(any, lse, KernelBuilder::f32(0)));
  }
}

// Operands of the gradients: q, k, v, lse, delta, do.
void Attention::gradQ(const Index& index) {
  begin(index);
  const size_t count = static_cast<size_t>(tile_), width = zeros(0).size();
  std::vector<Row> q, dy;
  std::vector<KV> lse, delta, sums;
  for (int64_t r = 0; r < tile_; ++r) {
    Index at = shifted(first_, r);
    q.push_back(scaled(row(0, at), scale_));
    dy.push_back(row(5, at));
    lse.push_back(number(3, at));
    delta.push_back(number(4, at));
    for (const KV& zero : zeros(0)) sums.push_back(zero);
  }
  auto step = [&](const KV& round, std::vector<KV> now) {
    Index j0 = c_.space.scale(c_.space.variable(round, keys_ / block_), block_);
    for (int64_t b = 0; b < block_; ++b) {
      Index j = shifted(j0, b);
      Row k = row(1, j), v = row(2, j);
      for (size_t r = 0; r < count; ++r) {
        KV p = exp(sub(dot(q[r], k), lse[r]));
        p = kernel_.select(sees(shifted(first_, static_cast<int64_t>(r)), j), p, KernelBuilder::f32(0));
        KV ds = kernel_.mul(p, sub(dot(dy[r], v), delta[r]));
        for (size_t i = 0; i < width; ++i) {
          KV& sum = now[r * width + i];
          sum = kernel_.fma(ds, k[i], sum);
        }
      }
    }
    return now;
  };
  KV blocks = keyBlocks(shifted(first_, tile_ - 1));
  kernel_.hint("block");
  sums = kernel_.loop(kernel_.depth(), KernelBuilder::u32(0), blocks, 1, sums, step);
  for (size_t r = 0; r < count; ++r)
    storeRow(0, shifted(first_, static_cast<int64_t>(r)),
             scaled({sums.begin() + static_cast<int64_t>(r * width),
                     sums.begin() + static_cast<int64_t>((r + 1) * width)},
                    scale_));
}

void Attention::gradKv(const Index& index) {
  begin(index);
  const size_t count = static_cast<size_t>(tile_), width = zeros(1).size(), valueWidth = zeros(2).size(),
               stride = width + valueWidth;
  std::vector<Row> k, v;
  std::vector<KV> sums;  // dk and dv of each row
  for (int64_t r = 0; r < tile_; ++r) {
    k.push_back(scaled(row(1, shifted(first_, r)), scale_));
    v.push_back(row(2, shifted(first_, r)));
    for (int which : {1, 2})
      for (const KV& zero : zeros(which)) sums.push_back(zero);
  }
  auto step = [&](const KV& round, std::vector<KV> now) {
    Index i0 = c_.space.scale(c_.space.variable(round, queries_ / block_), block_);
    for (int64_t b = 0; b < block_; ++b) {
      Index i = shifted(i0, b);
      Row q = row(0, i), dy = row(5, i);
      KV lse = number(3, i), delta = number(4, i);
      for (size_t r = 0; r < count; ++r) {
        KV p = exp(sub(dot(k[r], q), lse));
        p = kernel_.select(sees(i, shifted(first_, static_cast<int64_t>(r))), p, KernelBuilder::f32(0));
        KV ds = kernel_.mul(p, sub(dot(v[r], dy), delta));
        KV* sum = &now[r * stride];
        for (size_t part = 0; part < width; ++part, ++sum) *sum = kernel_.fma(ds, q[part], *sum);
        for (size_t part = 0; part < valueWidth; ++part, ++sum) *sum = kernel_.fma(p, dy[part], *sum);
      }
    }
    return now;
  };
  KV from = firstQueryBlock(first_);
  kernel_.hint("block");
  sums = kernel_.loop(kernel_.depth(), from, KernelBuilder::u32(queries_ / block_), 1, sums, step);
  for (size_t r = 0; r < count; ++r) {
    auto start = sums.begin() + static_cast<int64_t>(r * stride),
         middle = start + static_cast<int64_t>(width);
    Index at = shifted(first_, static_cast<int64_t>(r));
    storeRow(0, at, scaled({start, middle}, scale_));
    storeRow(1, at, {middle, middle + static_cast<int64_t>(valueWidth)});
  }
}

Result<void> Attention::run() {
  int64_t own = forKeys_ ? keys_ : queries_, other = forKeys_ ? queries_ : keys_;
  if (own % tile_ || other % block_)
    return failAt(c_.fused.loc,
                  fmt::format("schedule {} does not divide {} rows and {} rows of the other side",
                              c_.schedule.str(), own, other));
  const int64_t width = as::attention(op_).q()->type.shape.back() + as::attention(op_).v()->type.shape.back();
  TG_CHECK(c_.checkStraight(tile_ * block_ * width));
  c_.launch(batch_ * (own / tile_), workgroup_, [&](const Index& index) {
    if (op_.code == Opcode::attention)
      forward(index);
    else if (forKeys_)
      gradKv(index);
    else
      gradQ(index);
  });
  return {};
}

}  // namespace

Result<AttentionRegion> AttentionRegion::of(const LowerContext& c) {
  AttentionRegion out;
  for (const Op* op : c.region.body.ops)
    if (op->info().fusion == table::Fusion::attention && op->code != Opcode::attention_grad) out.op = op;
  if (!out.op)
    return failAt(c.fused.loc,
                  fmt::format("schedule {} is for regions of tg.attention, tg.attention_grad_q or "
                              "tg.attention_grad_kv",
                              c.schedule.str()));
  out.lead = out.op->in(0)->type.shape;
  const Shape& k = as::attention(*out.op).k()->type.shape;
  out.queries = out.lead[out.lead.rank() - 2], out.keys = k[k.rank() - 2];
  out.causal = as::attention(*out.op).causal();
  double scale = as::attention(*out.op).scale();
  if (scale == 0) scale = 1.0 / std::sqrt(static_cast<double>(out.lead.back()));
  out.scale = KernelBuilder::f32(scale);
  out.lead.resize(out.lead.rank() - 2);
  out.batch = out.lead.elements();
  return out;
}

Index AttentionRegion::firstRow(LowerContext& c, const Index& group, int64_t rows, bool forKeys) const {
  const int64_t tiles = ((forKeys ? keys : queries) + rows - 1) / rows;
  Index tile = c.space.div(group, batch);
  if (causal && !forKeys) tile = c.space.add(IndexSpace::constant(tiles - 1), c.space.scale(tile, -1));
  return c.space.scale(tile, rows);
}

std::pair<KV, KV> AttentionRegion::blocks(LowerContext& c, const Index& first, int64_t rows, int64_t block,
                                          bool forKeys) const {
  const int64_t others = ((forKeys ? queries : keys) + block - 1) / block, ahead = keys - queries;
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

/// The value that a chain of casts rounds.
static const Value* unrounded(const Value* value) {
  while (value->def && value->def->code == Opcode::cast) value = value->def->in(0);
  return value;
}

void storeAttention(LowerContext& c, const Value* result, const Index& offset, const KV& value,
                    const KV* following) {
  const Index second = c.space.add(offset, IndexSpace::constant(kLanes));
  c.emitter.define(result, c.space.delinear(offset, result->type.shape), value);
  if (following) c.emitter.define(result, c.space.delinear(second, result->type.shape), *following);
  for (size_t slot = 0; slot < c.region.yields.size(); ++slot) {
    const Value* yield = c.region.yields[slot];
    if (unrounded(yield) != result) continue;
    const int place = static_cast<int>(slot);
    if (following && isNarrow(yield->type.dtype)) {
      c.emitter.storeWords(place, offset);
      continue;
    }
    c.emitter.store(place, offset);
    if (following) c.emitter.store(place, second);
  }
}

Result<void> lowerKernel(LowerContext& c, const AttentionSchedule& schedule) {
  TG_TRY(AttentionRegion region, AttentionRegion::of(c));
  return Attention(c, schedule, region).run();
}

}  // namespace tg
