#include <fmt/format.h>

#include <algorithm>

#include "codegen/lower_schedules.h"
#include "codegen/product.h"

namespace tg {
namespace {

/// A strip of an operand: `count` positions along m or n by `depth` along k, as scalars
/// part[position][k] taken out of whatever vectors the loads gave.
class Strip {
 public:
  Strip(LowerContext& c, const Product& p, int which)
      : c_(c), p_(p), which_(which), alongK_(preferAlongK(c, p, which)) {}

  void load(const Indices& lead, const Index& first, int64_t count, const Index& k, int64_t depth) {
    parts_.assign(static_cast<size_t>(count), std::vector<Part>(static_cast<size_t>(depth)));
    bool vector = alongK_ ? depth == kLanes : count % kLanes == 0 && c_.space.align(first) % kLanes == 0;
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
  Product p = findProduct(c.region);
  const Attr* tile = c.schedule.find("tile");
  std::vector<int64_t> extents = tile ? tile->asInts() : std::vector<int64_t>{};
  if (extents.size() != 2 || p.m % extents[0] != 0 || p.n % extents[1] != 0)
    return failAt(c.fused.loc, fmt::format("schedule {} does not divide the product of {} by {}",
                                           c.schedule.str(), p.m, p.n));
  int64_t tileM = extents[0], tileN = extents[1];
  int64_t across = p.n / tileN, down = p.m / tileM;
  bool vector = tileN % kLanes == 0;
  int64_t depth = p.k % kLanes == 0 ? kLanes : 1;
  Strip a(c, p, 0), b(c, p, 1);
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
             acc = c.kernel.loop(c.kernel.depth(), KernelBuilder::u32(0), p.k / depth, 1, acc,
                                 [&](const KV& round, const std::vector<KV>& carried) {
                                   Index k = c.space.scale(c.space.variable(round, p.k / depth), depth);
                                   a.clear(), b.clear();
                                   a.load(lead, m0, tileM, k, depth);
                                   b.load(lead, n0, tileN, k, depth);
                                   std::vector<KV> sums = carried;
                                   for (int64_t deep = 0; deep < depth; ++deep)
                                     for (int64_t i = 0; i < tileM; ++i)
                                       for (int64_t j = 0; j < perRow; ++j) {
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

Result<void> lowerMatmulShared(LowerContext& c) {
  Product p = findProduct(c.region);
  std::vector<int64_t> tile = c.schedule.find("tile")->asInts(), shared = c.schedule.find("shared")->asInts();
  if (tile.size() != 2 || shared.size() != 3 || shared[0] % tile[0] || shared[1] % tile[1])
    return failAt(c.fused.loc, fmt::format("schedule {} is malformed", c.schedule.str()));
  int64_t blockM = shared[0], blockN = shared[1], depth = shared[2];
  int64_t across = blockN / tile[1], invocations = across * (blockM / tile[0]);
  int64_t bytes = (blockM + blockN) * depth * 4;
  if (bytes > c.target.sharedBytes)
    return failAt(c.fused.loc, fmt::format("schedule {} needs {} bytes of shared memory, target {} has {}",
                                           c.schedule.str(), bytes, c.target.name, c.target.sharedBytes));
  int64_t groupsN = (p.n + blockN - 1) / blockN, groupsM = (p.m + blockM - 1) / blockM;
  KernelBuilder& kernel = c.kernel;
  c.launchGroups(p.batch * groupsM * groupsN, invocations, [&](const Index& group) {
    Index column = c.space.mod(group, groupsN), rest = c.space.div(group, groupsN);
    Index row = c.space.mod(rest, groupsM), batch = c.space.div(rest, groupsM);
    Indices lead = c.space.delinear(batch, p.lead);
    Index lane = c.space.variable(kernel.id(Opcode::k_local_id, 0), invocations);
    Index laneN = c.space.scale(c.space.mod(lane, across), tile[1]),
          laneM = c.space.scale(c.space.div(lane, across), tile[0]);
    Value* stage[2] = {
        kernel.sharedBuffer(Type::buffer(DType::f32, 1, {depth * blockM}, BufMode::shared), "tile_a"),
        kernel.sharedBuffer(Type::buffer(DType::f32, 1, {depth * blockN}, BufMode::shared), "tile_b")};
    KV zero = KernelBuilder::f32(0);
    std::vector<KV> acc(static_cast<size_t>(tile[0] * tile[1]), zero);
    int64_t steps = (p.k + depth - 1) / depth;
    kernel.hint("step");
    acc = kernel.loop(
        kernel.depth(), KernelBuilder::u32(0), steps, 1, acc,
        [&](const KV& step, const std::vector<KV>& carried) {
          Index k0 = c.space.scale(c.space.variable(step, steps), depth);
          for (int which = 0; which < 2; ++which) {
            // Element e of a stage is (k = e / block, position = e % block); elements outside are zero.
            int64_t block = which == 0 ? blockM : blockN, extent = which == 0 ? p.m : p.n;
            Index origin = c.space.scale(which == 0 ? row : column, block);
            for (int64_t part = 0; part < depth * block; part += invocations) {
              Index e = c.space.add(lane, IndexSpace::constant(part));
              auto fill = [&] {
                Index k = c.space.add(k0, c.space.div(e, block)),
                      at = c.space.add(origin, c.space.mod(e, block));
                KV loaded = c.emitter.within(k, p.k, at, extent, [&](const Index& kIn, const Index& atIn) {
                  return element(c.emitter, p, which, lead, which == 0 ? atIn : kIn, which == 0 ? kIn : atIn);
                });
                kernel.store(loaded, stage[which], c.space.materialize(e));
              };
              if (part + invocations <= depth * block)
                fill();
              else
                kernel.guard(kernel.op(Opcode::k_lt,
                                       {c.space.materialize(e), KernelBuilder::u32(depth * block)},
                                       DType::i1),
                             fill);
            }
          }
          kernel.barrier();
          std::vector<KV> sums = carried;
          for (int64_t deep = 0; deep < depth; ++deep) {
            std::vector<KV> x, y;
            for (int64_t i = 0; i < tile[0]; ++i)
              x.push_back(kernel.loadHere(stage[0], c.space.materialize(c.space.add(
                                                        laneM, IndexSpace::constant(deep * blockM + i)))));
            for (int64_t j = 0; j < tile[1]; ++j)
              y.push_back(kernel.loadHere(stage[1], c.space.materialize(c.space.add(
                                                        laneN, IndexSpace::constant(deep * blockN + j)))));
            for (int64_t i = 0; i < tile[0]; ++i)
              for (int64_t j = 0; j < tile[1]; ++j) {
                KV& sum = sums[static_cast<size_t>(i * tile[1] + j)];
                sum = kernel.fma(x[static_cast<size_t>(i)], y[static_cast<size_t>(j)], sum);
              }
          }
          kernel.barrier();
          return sums;
        });
    Index m0 = c.space.add(c.space.scale(row, blockM), laneM),
          n0 = c.space.add(c.space.scale(column, blockN), laneN);
    for (int64_t i = 0; i < tile[0]; ++i)
      for (int64_t j = 0; j < tile[1]; ++j) {
        Index mi = c.space.add(m0, IndexSpace::constant(i)), nj = c.space.add(n0, IndexSpace::constant(j));
        const KV& sum = acc[static_cast<size_t>(i * tile[1] + j)];
        c.emitter.whereInside(mi, p.m, nj, p.n, [&](const Index& mIn, const Index& nIn) {
          epilogue(c, p, batch, mIn, nIn, 1, 1, false, {sum});
        });
      }
  });
  return {};
}

}  // namespace tg
