// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "codegen/lower_schedules.h"
#include "codegen/product.h"
#include "codegen/schedule.h"

namespace tg {
namespace {

/// A strip of an operand: `count` positions along m or n by `depth` along k, as scalars
/// part[position][k] taken out of whatever vectors the loads gave.
class Strip {
 public:
  Strip(LowerContext& c, const Product& p, int which, int64_t depth)
      : c_(c), p_(p), which_(which), alongK_(preferAlongK(c, p, which, depth)) {}

  void load(const Indices& lead, const Index& first, int64_t count, const Index& k, int64_t depth) {
    parts_.assign(static_cast<size_t>(count), std::vector<Part>(static_cast<size_t>(depth)));
    bool vector = alongK_ ? depth % kLanes == 0 : count % kLanes == 0 && c_.space.align(first) % kLanes == 0;
    int64_t outerCount = alongK_ ? count : depth, innerCount = alongK_ ? depth : count;
    for (int64_t outer = 0; outer < outerCount; ++outer)
      for (int64_t inner = 0; inner < innerCount; inner += vector ? kLanes : 1) {
        int64_t position = alongK_ ? outer : inner, deep = alongK_ ? inner : outer;
        Index at = shifted(first, position), depthAt = shifted(k, deep);
        if (vector) (alongK_ ? depthAt : at) = c_.space.add(alongK_ ? depthAt : at, IndexSpace::lane());
        KV loaded =
            element(c_.emitter, p_, which_, lead, which_ == 0 ? at : depthAt, which_ == 0 ? depthAt : at);
        for (int64_t lane = 0; lane < (vector ? kLanes : 1); ++lane)
          parts_[static_cast<size_t>(position + (alongK_ ? 0 : lane))]
                [static_cast<size_t>(deep + (alongK_ ? lane : 0))] = {loaded, static_cast<int>(lane)};
        if (vector && !alongK_) vectors_[{position, deep}] = loaded;
      }
  }
  KV at(int64_t position, int64_t k) {
    const Part& part = parts_[static_cast<size_t>(position)][static_cast<size_t>(k)];
    return c_.kernel.extract(part.loaded, part.lane);
  }
  /// Four neighbouring positions at one k as a vector.
  KV four(int64_t position, int64_t k) {
    auto it = vectors_.find({position, k});
    if (it != vectors_.end()) return it->second;
    std::vector<KV> lanes;
    for (int64_t lane = 0; lane < kLanes; ++lane) lanes.push_back(at(position + lane, k));
    return c_.kernel.vec(lanes);
  }
  void clear() { vectors_.clear(); }

 private:
  Index shifted(const Index& index, int64_t by) const {
    return c_.space.add(index, IndexSpace::constant(by));
  }
  /// A lane of what a load gave; taken out when it is used.
  struct Part {
    KV loaded;
    int lane = 0;
  };

  LowerContext& c_;
  const Product& p_;
  int which_;
  bool alongK_;
  std::vector<std::vector<Part>> parts_;
  std::map<std::pair<int64_t, int64_t>, KV> vectors_;
};

}  // namespace

Result<void> lowerMatmul(LowerContext& c) {
  TG_TRY(Product p, findProduct(c));
  const Attr* tile = c.schedule.find("tile");
  std::vector<int64_t> extents = tile ? tile->asInts() : std::vector<int64_t>{};
  if (extents.size() != 2 || p.m % extents[0] != 0 || p.n % extents[1] != 0)
    return failAt(c.fused.loc, fmt::format("schedule {} does not divide the product of {} by {}",
                                           c.schedule.str(), p.m, p.n));
  int64_t tileM = extents[0], tileN = extents[1];
  int64_t across = p.n / tileN, down = p.m / tileM;
  bool vector = tileN % kLanes == 0;
  int64_t depth = c.option("depth", 1);
  if (depth < 1 || p.k % depth != 0)
    return failAt(c.fused.loc, fmt::format("schedule {} takes {} of k at a time, which do not divide {}",
                                           c.schedule.str(), depth, p.k));
  TG_CHECK(c.checkStraight(tileM * tileN * depth));
  Strip a(c, p, 0, depth), b(c, p, 1, depth);
  c.launch(p.batch * down * across, std::min(c.option("workgroup", 8), c.target.maxInvocations),
           [&](const Index& tileIndex) {
             // Neighbouring invocations take neighbouring columns, so that they read the same rows of A.
             Index column = c.space.mod(tileIndex, across), rest = c.space.div(tileIndex, across);
             Index row = c.space.mod(rest, down), batch = c.space.div(rest, down);
             Index m0 = c.space.scale(row, tileM), n0 = c.space.scale(column, tileN);
             Indices lead = c.space.delinear(batch, p.lead);
             int64_t perRow = vector ? tileN / kLanes : tileN;
             KV zero = KernelBuilder::f32(0);
             if (vector) zero = c.kernel.splat(zero);
             std::vector<KV> acc(static_cast<size_t>(tileM * perRow), zero);
             c.kernel.hint("k");
             acc = c.kernel.sumLoop(c.kernel.depth(), p.k / depth, std::max<int64_t>(kSumBlock / depth, 4),
                                    acc, [&](const KV& round, const std::vector<KV>& carried) {
                                      Index k = c.space.scale(c.space.variable(round, p.k / depth), depth);
                                      a.clear(), b.clear();
                                      a.load(lead, m0, tileM, k, depth);
                                      b.load(lead, n0, tileN, k, depth);
                                      std::vector<KV> sums = carried;
                                      // A sum takes all of the strip at once: where they do not all fit
                                      // registers, each is fetched and put back once.
                                      for (int64_t i = 0; i < tileM; ++i)
                                        for (int64_t j = 0; j < perRow; ++j)
                                          for (int64_t deep = 0; deep < depth; ++deep) {
                                            KV& sum = sums[static_cast<size_t>(i * perRow + j)];
                                            KV left = a.at(i, deep),
                                               right = vector ? b.four(j * kLanes, deep) : b.at(j, deep);
                                            sum = c.kernel.fma(left, right, sum);
                                          }
                                      return sums;
                                    });
             epilogue(c, p, batch, m0, n0, tileM, tileN, vector, acc);
           });
  return {};
}

}  // namespace tg
