// SPDX-License-Identifier: Apache-2.0
// attention{tile, block}: each invocation holds a tile of own rows in registers and reads the rows of the other
// side from memory. Neighbouring invocations have neighbouring tiles.

#include <limits>

#include "codegen/schedule_parts.h"
#include "codegen/tile_attention.h"
#include "ir/op_view.h"

namespace tg {
namespace {

/// A row of a matrix: vectors of four, or scalars if four does not divide its width.
using Row = std::vector<KV>;

/// A part is the score of one own row and one other row.
class RowAttention final : public AttentionWalk {
 public:
  RowAttention(LowerContext& c, const AttentionRegion& region, const AttentionSchedule& schedule)
      : AttentionWalk(c, region,
                      {.rows = schedule.tile,
                       .block = schedule.block,
                       .down = schedule.tile,
                       .across = schedule.block,
                       .weighed = schedule.block,
                       .atOnce = 1}) {}

 private:
  void begin() override;
  KV zero() override { return KernelBuilder::f32(0); }
  KV zeroOf(const AttentionRegion::Sum& sum) override {
    return isVector(r_.width(sum)) ? kernel_.splat(zero()) : zero();
  }
  KV lowest() override { return KernelBuilder::f32(-std::numeric_limits<float>::max()); }
  size_t partsOf(const AttentionRegion::Sum& sum) const override {
    return static_cast<size_t>(d_.down) * partsOfRow(r_.width(sum));
  }
  Parts scores(int which, int64_t column) override;
  KV largestOf(size_t row, const KV& before, const Parts& scores) override;
  KV visible(int64_t row, int64_t column) override { return sees(plus(first_, row), otherRow(column)); }
  std::pair<KV, KV> statistics(int64_t column) override;
  void addProducts(int64_t column, const Parts& p, const Parts& ds, std::span<KV> sums) override;
  void finishForward(std::span<KV> largest, std::span<KV> total, std::span<KV> sums) override;
  void storeSum(size_t number, std::span<KV> parts) override;

  static bool isVector(int64_t width) { return width % kLanes == 0; }
  static size_t partsOfRow(int64_t width) {
    return static_cast<size_t>(isVector(width) ? width / kLanes : width);
  }
  Row rowOf(int operand, const Index& row);
  KV dot(const Row& a, const Row& b);
  Index otherRow(int64_t column) { return plus(firstOf(block_), column); }

  std::vector<Row> own_[2];
};

Row RowAttention::rowOf(int operand, const Index& row) {
  const int64_t width = r_.width(operand);
  Row out;
  for (int64_t part = 0; part < width; part += isVector(width) ? kLanes : 1)
    out.push_back(
        element(operand, row,
                c_.space.add(IndexSpace::constant(part), isVector(width) ? IndexSpace::lane() : Index{})));
  return out;
}

/// The dot product of two rows: four sums along the vectors' lanes, which are added up at the end.
KV RowAttention::dot(const Row& a, const Row& b) {
  KV sum = kernel_.mul(a[0], b[0]);
  for (size_t i = 1; i < a.size(); ++i) sum = kernel_.fma(a[i], b[i], sum);
  if (sum.lanes() == 1) return sum;
  const KV x = kernel_.extract(sum, 0), y = kernel_.extract(sum, 1), z = kernel_.extract(sum, 2),
           w = kernel_.extract(sum, 3);
  const KV low = kernel_.add(x, y), high = kernel_.add(z, w);
  return kernel_.add(low, high);
}

/// Loads the own rows into registers: those of the scores times the scale, those of the gradients as they are. In the
/// gradient of queries, also loads their log-sum-exp and delta.
void RowAttention::begin() {
  for (int64_t i = 0; i < d_.down; ++i) {
    const Index row = plus(first_, i);
    own_[0].push_back(rowOf(r_.own[0], row));
    for (KV& each : own_[0].back()) each = kernel_.mul(each, KernelBuilder::f32(r_.scale));
    if (r_.isForward()) continue;
    own_[1].push_back(rowOf(r_.own[1], row));
    if (r_.forKeys) continue;
    lse_.push_back(number(Of::lse, row));
    delta_.push_back(number(Of::delta, row));
  }
}

AttentionWalk::Parts RowAttention::scores(int which, int64_t column) {
  const Row other = rowOf(r_.other[which], otherRow(column));
  Parts out;
  for (const Row& own : own_[which]) out.push_back(dot(own, other));
  return out;
}

KV RowAttention::largestOf(size_t row, const KV& before, const Parts& scores) {
  KV top = before;
  for (size_t k = row; k < scores.size(); k += static_cast<size_t>(d_.down)) top = larger(top, scores[k]);
  return top;
}

std::pair<KV, KV> RowAttention::statistics(int64_t column) {
  const KV lse = number(Of::lse, otherRow(column));
  return {lse, number(Of::delta, otherRow(column))};
}

/// Loads the other row once for all own rows of the tile.
void RowAttention::addProducts(int64_t column, const Parts& p, const Parts& ds, std::span<KV> sums) {
  for (const auto& sum : r_.sums) {
    const Row other = rowOf(r_.other[sum.ofP ? 1 : 0], otherRow(column));
    for (const KV& weight : sum.ofP ? p : ds) {
      for (size_t part = 0; part < other.size(); ++part)
        sums[part] = kernel_.fma(weight, other[part], sums[part]);
      sums = sums.subspan(other.size());
    }
  }
}

void RowAttention::storeSum(size_t number, std::span<KV> parts) {
  const AttentionRegion::Sum& sum = r_.sums[number];
  const int64_t width = r_.width(sum);
  for (int64_t row = 0; row < d_.down; ++row)
    for (int64_t part = 0; part < width; part += isVector(width) ? kLanes : 1) {
      Index offset = plus(c_.space.scale(overBatches(plus(first_, row)), width), part);
      if (isVector(width)) offset = c_.space.add(offset, IndexSpace::lane());
      storeAttention(c_, r_.op->result(sum.result), offset, parts.front());
      parts = parts.subspan(1);
    }
}

void RowAttention::finishForward(std::span<KV> largest, std::span<KV> total, std::span<KV> sums) {
  const size_t width = sums.size() / largest.size();
  for (size_t i = 0; i < largest.size(); ++i) {
    const KV whole = divisorOf(total[i]);
    for (KV& each : sums.subspan(i * width, width))
      each = kernel_.op(Opcode::k_div, {each, whole}, DType::f32);
    if (r_.op->results.size() > 1)
      storeAttention(c_, r_.op->result(1), overBatches(plus(first_, static_cast<int64_t>(i))),
                     logSumExp(largest[i], total[i]));
  }
  storeSum(0, sums);
}

}  // namespace

Result<void> lowerKernel(LowerContext& c, const AttentionSchedule& schedule) {
  TG_TRY(AttentionRegion region, AttentionRegion::of(c));
  if (const std::string lack = lackOfMore(*region.op); !lack.empty())
    return failAt(c.fused.loc, "schedule {} {}", c.schedule.str(), lack);
  if (region.ownRows() % schedule.tile != 0 || region.otherRows() % schedule.block != 0)
    return failAt(c.fused.loc, "schedule {} has a tile or block that does not divide its {} or {} rows",
                  c.schedule.str(), region.ownRows(), region.otherRows());
  const as::attention view(*region.op);
  TG_CHECK(c.checkStraight(schedule.tile * schedule.block *
                           (view.q()->type.shape.back() + view.v()->type.shape.back())));
  const int64_t tiles = region.ownRows() / schedule.tile;
  c.launch(region.batch * tiles, schedule.workgroup, [&](const Index& index) {
    RowAttention(c, region, schedule)
        .emit(c.space.div(index, tiles), c.space.scale(c.space.mod(index, tiles), schedule.tile));
  });
  return {};
}

}  // namespace tg
