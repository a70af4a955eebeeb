// SPDX-License-Identifier: Apache-2.0
// matmul{tile, depth}: products with a register tile for each invocation, which reads both operands from memory.
// This is the schedule of CPU drivers such as lavapipe, where a cache holds the sums that spill, and of products on
// a GPU that are too narrow for blocks in shared memory.

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>

#include "codegen/lower_schedules.h"
#include "codegen/product.h"
#include "codegen/schedule.h"
#include "codegen/schedule_parts.h"
#include "ir/op_view.h"

namespace tg {
namespace {

/// A tile of the product for each invocation, which takes `depth` of k at a time.
struct RegisterTile {
  int64_t m = 1, n = 1, depth = 1, workgroup = 8;
  bool stepwise = false;
  MatmulSchedule schedule() const {
    return {.tile = {m, n}, .depth = depth, .workgroup = workgroup, .stepwise = stepwise};
  }
};

bool readsWindows(const Value* factor) { return innermostWindow(factor) > 0; }

/// The extents that an axis of a factor (k, or m or n) was reshaped from, outermost first; the whole extent if it
/// was not reshaped.
Shape axisFactors(const Op& product, int which, bool alongK) {
  const Value* factor = product.in(which);
  const Shape& shape = factor->type.shape;
  bool last = (alongK == (which == 0)) != product.flag(which == 0 ? "transpose_a" : "transpose_b");
  int64_t extent = shape[shape.rank() - (last ? 1 : 2)], behind = last ? 1 : shape.back(), taken = 1;
  const Shape whole{extent};
  if (!factor->def || factor->def->code != Opcode::reshape) return whole;
  const Shape& from = factor->def->in(0)->type.shape;
  int axis = from.rank();
  while (axis > 0 && taken < behind) taken *= from[--axis];
  if (taken != behind) return whole;
  // The axis may have only a part of its outermost extent, such as the channels of one group of a convolution.
  std::vector<int64_t> innerFirst;
  for (int64_t left = extent; left > 1 && axis > 0; left /= innerFirst.back()) {
    const int64_t next = from[--axis];
    if (left % next != 0 && next % left != 0) return whole;
    innerFirst.push_back(std::min(left, next));
  }
  Shape factors;
  for (auto each = innerFirst.rbegin(); each != innerFirst.rend(); ++each) factors.push(*each);
  return factors.rank() > 0 ? factors : whole;
}

/// The number of elements of the innermost extents, as many whole ones as fit into `most`, times the largest
/// fitting divisor of the next.
int64_t wholeExtents(const Shape& factors, int64_t most) {
  int64_t count = 1;
  for (int axis = factors.rank() - 1; axis >= 0; --axis) {
    int64_t part = std::min(factors[axis], most / count);
    while (factors[axis] % part != 0) --part;
    count *= part;
    if (part != factors[axis]) break;
  }
  return count;
}

/// The tile of a convolution whose windows are operand `which`. It has whole extents of the image and of the
/// window, so that all index parts except the tile's number are constants, and an element of overlapping windows is
/// loaded once.
RegisterTile windowTile(const Op& product, int which, const Target& target) {
  constexpr int64_t kMostProducts = 2048;  // of a loop's body; more take seconds to compile
  constexpr int64_t kMostDeep = 16;
  // A wide tile loads an element of overlapping windows once. On a GPU neighbouring invocations share these loads
  // through the cache instead, and the closer their tiles are, the better loads and stores coalesce: a depthwise
  // 3x3 of 32 x 144 x 56 x 56 took 314 us on an H100 with 28 columns, 84 with 8 and 65 with 4.
  const int64_t kMostWide = target.matmul == "shared" ? kLanes : 28;
  const ProductSizes size = productSizes(product);
  const Shape deep = axisFactors(product, which, true);
  RegisterTile tile;
  tile.depth = wholeExtents(deep, kMostDeep);
  // Twice the depth, if that makes it a multiple of four: whole vectors of the other operand.
  if (tile.depth % 4 != 0 && wholeExtents(deep, 2 * tile.depth) % 4 == 0) tile.depth *= 2;
  const int64_t wide = wholeExtents(axisFactors(product, which, false), kMostWide);
  const int64_t extent = which == 1 ? size.m : size.n;
  int64_t other = divisor(extent, {8, 7, 6, 5, 4, 3, 2, 1});
  while (other > 1 && (other * wide * tile.depth > kMostProducts ||
                       size.batch * (size.m * size.n / (other * wide)) < target.parallel))
    do --other;
    while (extent % other != 0);
  tile.m = which == 1 ? other : wide;
  tile.n = which == 1 ? wide : other;
  return tile;
}

/// Rounds along k after which a loop of sums starts a new block of sums. In a round each sum gets `depth` products,
/// or, with `stepwise`, one sum of these.
int64_t roundsOfBlock(int64_t depth, bool stepwise) {
  return stepwise ? kSumBlock : std::max<int64_t>(kSumBlock / depth, 4);
}

/// How much of k a round takes, which divides k.
int64_t depthOf(const ProductSizes& size) { return divisor(size.inner, {8, 4, 7, 6, 5, 3, 2, 1}); }

/// The tile of a product on a GPU that has too few rows or columns for blocks in shared memory. Every round along k
/// waits for its loads. Many invocations with few sums each hide that latency best, and loads coalesce if
/// neighbouring invocations have close columns. So an invocation has one column if rows of the second factor lie
/// along k, a row of the window in the gradient of a convolution's kernels, else a vector. On an H100, in
/// microseconds, by rows and columns of an invocation:
///
///   8 x 4096 by (4096 x 4096)T                          [8, 1] 53   [8, 4] 61   [4, 4] 132   [2, 4] 282
///   512 of 8192 x 8 by 8 x 8                            [4, 4] 94   [8, 8] 193  [4, 8] 197
///   gradient of kernels, 32 groups of 8 channels, 3x3   [4, 3] 93   [8, 3] 115  [2, 4] 227
///   gradient of kernels, depthwise 7x7                  [1, 7] 227  [1, 1] 274
///
/// With fewer results than one subgroup on each processor has invocations, each invocation computes one and loads more of k
/// at a time: on an H200, 8 x 64 by 64 x 64 takes 4.1 µs with [1, 1] and 32 of k, 5.3 with [1, 4] and 8 of k.
RegisterTile narrowTile(const Op& product, const Target& target) {
  constexpr int64_t kMostSums = 16, kMostRows = 8, kDeep = 32;
  const ProductSizes size = productSizes(product);
  const int64_t window = innermostWindow(as::matmul(product).rhs());
  RegisterTile tile;
  tile.depth = depthOf(size);
  if (size.batch * size.m * size.n <= target.processors * target.subgroup && size.inner % kDeep == 0) {
    tile.depth = kDeep;
    return tile;
  }
  if (window > 0 && window <= kMostRows && size.n % window == 0)
    tile.n = window;
  else if (!as::matmul(product).transpose_b() || size.n < kLeastSharedSide)
    tile.n = divisor(size.n, {4, 5, 7, 6, 3, 2, 1});
  tile.m = std::min(kMostRows, kMostSums / tile.n);
  auto isIdle = [&] { return size.batch * (size.m / tile.m) * (size.n / tile.n) < target.parallel; };
  while (size.m % tile.m != 0 || (tile.m > 1 && isIdle())) --tile.m;
  return tile;
}

/// The tile of a product on a CPU. It is as large as registers allow while enough invocations remain to fill the
/// device. If a cache holds the sums that registers do not, larger tiles fetch less. The largest are for products whose
/// rows are far apart in both factors, as where a sum runs over the batch. (Twice the sums take twice as long to compile
/// on lavapipe.)
///
/// On lavapipe a fetch of four numbers for eight invocations takes as long as 20 fma. Spilling and reloading a sum,
/// once in each round, takes as long as two or three. A square tile has the fewest fetches, and its round of 4
/// along k still fits the instruction cache. If rows of the second factor lie along k, they are too far apart for
/// such wide tiles: their cache lines evict each other.
RegisterTile plainTile(const Op& product, const Target& target) {
  const ProductSizes size = productSizes(product);
  // A loop spills and reloads all sums in every round, so a round takes as much of k as possible.
  RegisterTile tile{divisor(size.m, {8, 7, 6, 5, 4, 3, 2, 1}), divisor(size.n, {8, 4, 7, 6, 5, 3, 2, 1}),
                    depthOf(size)};
  auto invocations = [&](int64_t m, int64_t n) { return size.batch * (size.m / m) * (size.n / n); };
  if (tile.m * tile.n == 64) {
    const bool along = as::matmul(product).transpose_b();
    const bool apart = as::matmul(product).transpose_a() && !along;
    // For smaller products, the time that is saved in a step does not make up for the longer compilation.
    constexpr int64_t kLarge = 1 << 24;  // multiplications
    const bool large = size.batch * size.m * size.n >= kLarge / size.inner;
    if (large && !along && size.m % 16 == 0 && size.n % 16 == 0 && size.inner % 4 == 0 &&
        invocations(16, 16) >= 2 * target.parallel)
      return {16, 16, 4};
    for (const RegisterTile& each : {RegisterTile{32, 8, 4}, {16, 8, 8}})
      if ((apart || each.m < 32) && size.m % each.m == 0 && size.inner % each.depth == 0 &&
          invocations(each.m, each.n) >= 2 * target.parallel)
        return each;
  }
  if (invocations(tile.m, tile.n) < target.parallel && tile.n == 8) tile.n = 4;
  while (invocations(tile.m, tile.n) < target.parallel && tile.m % 2 == 0 && tile.m > 2) tile.m /= 2;
  return tile;
}

/// A strip of an operand in registers: `count` positions along m or n by `depth` along k. Elements are extracted
/// from the loaded vectors when they are used.
class Strip {
 public:
  Strip(LowerContext& c, const Product& p, int which, bool alongK)
      : c_(c), p_(p), which_(which), alongK_(alongK) {}

  /// Emits the loads of the strip at (first, k), by vectors of four along k or along the positions where possible.
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
  /// Four neighbouring positions at one k, as a vector: as loaded, or put together from scalars.
  KV four(int64_t position, int64_t k) {
    if (const KV* known = valueIn(vectors_, std::pair(position, k))) return *known;
    std::vector<KV> lanes;
    for (int64_t lane = 0; lane < kLanes; ++lane) lanes.push_back(at(position + lane, k));
    return c_.kernel.vec(lanes);
  }
  void clear() { vectors_.clear(); }

 private:
  Index shifted(const Index& index, int64_t by) const {
    return c_.space.add(index, IndexSpace::constant(by));
  }
  /// A lane of a loaded vector, extracted when it is used.
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

bool wantsTurned(const Op& product, const Target& target) {
  if (target.matmul != "register" || as::matmul(product).transpose_a() ||
      !readsWindows(as::matmul(product).rhs()) || axisFactors(product, 1, true).rank() < 2)
    return false;
  const RegisterTile tile = windowTile(product, 1, target);
  return tile.depth % 4 != 0 && tile.m % 4 == 0 && productSizes(product).inner > tile.depth;
}

/// Invocations of a workgroup. A GPU gets as large ones as leave each processor several groups; elsewhere a group
/// has the invocations of a row of tiles.
static int64_t workgroupOf(const RegisterTile& tile, const ProductSizes& size, const Target& target) {
  constexpr int64_t kLeast = 8, kMost = 64, kGroupsPerUnit = 4;
  const int64_t across = size.n / tile.n, invocations = size.batch * (size.m / tile.m) * across;
  const bool isGpu = target.matmul == "shared";
  const int64_t wanted = isGpu ? invocations / (kGroupsPerUnit * target.units()) : across;
  const int64_t most = std::min(isGpu ? target.workgroup : kMost, largestGroup(target));
  return std::clamp(roundUpToPowerOfTwo(wanted), std::min(kLeast, most), most);
}

static RegisterTile registerTile(const Op& product, const Target& target) {
  const int which = readsWindows(as::matmul(product).rhs())   ? 1
                    : readsWindows(as::matmul(product).lhs()) ? 0
                                                              : -1;
  const bool windows = which >= 0 && axisFactors(product, which, true).rank() > 1;
  RegisterTile tile = windows                     ? windowTile(product, which, target)
                      : target.matmul == "shared" ? narrowTile(product, target)
                                                  : plainTile(product, target);
  tile.workgroup = workgroupOf(tile, productSizes(product), target);
  // A loop that is split into blocks of sums keeps every sum twice and takes a tenth longer. Stepwise sums need
  // fewer blocks, since a block has `depth` times as many terms.
  tile.stepwise = target.matmul == "register" && tile.depth >= 4 &&
                  productSizes(product).inner / tile.depth > 2 * roundsOfBlock(tile.depth, false);
  return tile;
}

MatmulSchedule arranged(const Op& fused, const Target&, MatmulSchedule schedule) {
  const std::unique_ptr<PlainRegion> region = plainRegion(fused);
  if (const Product p = productIn(*region); p.op)
    schedule.turned = turnedOperands(fused, *region, p, schedule.depth);
  return schedule;
}

template <>
std::optional<MatmulSchedule> choose(const Op& product, const Target& target) {
  return registerTile(product, target).schedule();
}

std::vector<Schedule> neighbours(const Op& fused, const Target& target, const MatmulSchedule&) {
  constexpr int64_t kMostElements = 512, kMostProducts = 2048;
  std::vector<Schedule> out;
  const Op* product = contractionOf(fused);
  if (!product) return out;
  const ProductSizes size = productSizes(*product);
  const RegisterTile own = registerTile(*product, target);
  auto add = [&](int64_t m, int64_t n, int64_t depth, int64_t workgroup) {
    if (m > 0 && n > 0 && depth > 0 && size.m % m == 0 && size.n % n == 0 && size.inner % depth == 0 &&
        m * n <= kMostElements && m * n * depth <= kMostProducts && workgroup >= 8 &&
        workgroup <= largestGroup(target))
      out.push_back(RegisterTile{m, n, depth, workgroup, own.stepwise}.schedule());
  };
  add(own.m, own.n * 2, own.depth, own.workgroup);
  add(own.m, own.n, own.depth, own.workgroup / 2);
  if (own.m % 2 == 0) add(own.m / 2, own.n * 2, own.depth, own.workgroup);
  if (own.m % 2 == 0) add(own.m / 2, own.n, own.depth, own.workgroup);
  add(own.m, own.n, own.depth, own.workgroup * 2);
  if (own.n % 8 == 0) add(own.m, own.n / 2, own.depth, own.workgroup);
  add(own.m * 2, own.n, own.depth, own.workgroup);
  return out;
}

Result<void> lowerKernel(LowerContext& c, const MatmulSchedule& schedule) {
  TG_TRY(Product p, findProduct(c));
  const int64_t tileM = schedule.tile[0], tileN = schedule.tile[1];
  if (p.m % tileM != 0 || p.n % tileN != 0)
    return failAt(c.fused.loc,
                  "schedule {} has a tile that does not divide the product of {} rows and {} columns",
                  c.schedule.str(), p.m, p.n);
  int64_t across = p.n / tileN, down = p.m / tileM;
  bool vector = tileN % kLanes == 0;
  const int64_t depth = schedule.depth;
  if (p.k % depth != 0)
    return failAt(c.fused.loc, "schedule {} has depth {}, which does not divide the inner extent {}",
                  c.schedule.str(), depth, p.k);
  TG_CHECK(c.checkStraight(tileM * tileN * depth));
  auto alongK = [&](int which) {
    return liesAlongK(p, which, depth) != schedule.turned[static_cast<size_t>(which)];
  };
  Strip a(c, p, 0, alongK(0)), b(c, p, 1, alongK(1));
  c.launch(p.batch * down * across, schedule.workgroup, [&](const Index& tileIndex) {
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
    const int64_t block = roundsOfBlock(depth, schedule.stepwise);
    acc = c.kernel.sumLoop(
        c.kernel.depth(), p.k / depth, block, acc, [&](const KV& round, const std::vector<KV>& carried) {
          Index k = c.space.scale(c.space.variable(round, p.k / depth), depth);
          a.clear(), b.clear();
          a.load(lead, m0, tileM, k, depth);
          b.load(lead, n0, tileN, k, depth);
          std::vector<KV> sums = carried;
          // Each sum takes all k of the strip at once: where the sums do not all fit the registers, each is
          // reloaded and spilled once a round.
          for (int64_t i = 0; i < tileM; ++i)
            for (int64_t j = 0; j < perRow; ++j) {
              KV& sum = sums[static_cast<size_t>(i * perRow + j)];
              KV step = sum;
              for (int64_t deep = 0; deep < depth; ++deep) {
                KV left = a.at(i, deep), right = vector ? b.four(j * kLanes, deep) : b.at(j, deep);
                step = schedule.stepwise && deep == 0 ? c.kernel.mul(left, right)
                                                      : c.kernel.fma(left, right, step);
              }
              sum = schedule.stepwise ? c.kernel.add(sum, step) : step;
            }
          return sums;
        });
    epilogue(c, p, batch, m0, n0, tileM, tileN, vector, acc);
  });
  return {};
}

}  // namespace tg
