// SPDX-License-Identifier: Apache-2.0
// Schedules of contractions whose tiles stand in registers, or in what holds the registers that spill.
#include <algorithm>
#include <cstdint>

#include "codegen/schedule_parts.h"

namespace tg {

namespace {

/// Whether a factor is made of the windows of a convolution, whose elements lie four in a row nowhere.
bool readsWindows(const Value* factor) {
  for (const Op* op = factor->def; op && op->info().fusion == table::Fusion::view; op = op->in(0)->def)
    if (op->code == Opcode::unfold) return true;
  return false;
}

/// The extents that an axis of a factor was reshaped from, outermost first.
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
  int end = axis;
  for (taken = 1; axis > 0 && taken < extent;) taken *= from[--axis];
  if (taken != extent) return whole;
  Shape factors;
  for (; axis < end; ++axis) factors.push(from[axis]);
  return factors;
}

/// The elements of the innermost extents, as many of these as `most` holds, times what divides the next.
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

/// Of a convolution whose windows are operand `which`: whole extents of the image and of the window at a
/// time, so that what is not the tile's number is constant and an element of windows that overlap is read
/// once.
RegisterTile windowTile(const Op& product, int which, const Target& target) {
  constexpr int64_t kMostProducts = 2048;  // of a loop's body; more take seconds to compile
  constexpr int64_t kMostDeep = 16, kMostWide = 28;
  const ProductSizes size = productSizes(product);
  const Shape deep = axisFactors(product, which, true);
  RegisterTile tile;
  tile.depth = wholeExtents(deep, kMostDeep);
  // Whole vectors of the other operand, where doubling makes them.
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

/// As large as registers allow while enough invocations remain to fill the device. Where a cache holds the
/// sums that registers do not, larger tiles fetch less; rows of both factors that lie far apart, as where a
/// sum runs over the batch, ask for the most. (Twice the sums take three times as long to compile on
/// lavapipe, and run a tenth faster.)
RegisterTile plainTile(const Op& product, const Target& target) {
  const ProductSizes size = productSizes(product);
  // A loop puts all sums away and fetches them in every round: the longer, the fewer.
  RegisterTile tile{divisor(size.m, {8, 7, 6, 5, 4, 3, 2, 1}), divisor(size.n, {8, 4, 7, 6, 5, 3, 2, 1}),
                    divisor(size.inner, {8, 4, 7, 6, 5, 3, 2, 1})};
  auto invocations = [&](int64_t m, int64_t n) { return size.batch * (size.m / m) * (size.n / n); };
  if (target.matmul == "register" && tile.m * tile.n == 64) {
    const bool apart = product.flag("transpose_a") && !product.flag("transpose_b");
    for (const RegisterTile& each : {RegisterTile{32, 8, 4}, {16, 8, 8}})
      if ((apart || each.m < 32) && size.m % each.m == 0 && size.inner % each.depth == 0 &&
          invocations(each.m, each.n) >= 2 * target.parallel)
        return each;
  }
  if (invocations(tile.m, tile.n) < target.parallel && tile.n == 8) tile.n = 4;
  while (invocations(tile.m, tile.n) < target.parallel && tile.m % 2 == 0 && tile.m > 2) tile.m /= 2;
  return tile;
}

}  // namespace

Attr RegisterTile::schedule() const {
  return scheduleAttr(
      "matmul",
      {{"tile", Attr::ints({m, n})}, {"depth", Attr::of(depth)}, {"workgroup", Attr::of(workgroup)}});
}

bool wantsTurned(const Op& product, const Target& target) {
  if (target.matmul != "register" || product.flag("transpose_a") || !readsWindows(product.in(1)) ||
      axisFactors(product, 1, true).rank() < 2)
    return false;
  const RegisterTile tile = windowTile(product, 1, target);
  return tile.depth % 4 != 0 && tile.m % 4 == 0 && productSizes(product).inner > tile.depth;
}

RegisterTile registerTile(const Op& product, const Target& target) {
  const int which = readsWindows(product.in(1)) ? 1 : readsWindows(product.in(0)) ? 0 : -1;
  const bool windows = which >= 0 && axisFactors(product, which, true).rank() > 1;
  RegisterTile tile = windows ? windowTile(product, which, target) : plainTile(product, target);
  tile.workgroup = std::clamp<int64_t>(roundUpToPowerOfTwo(productSizes(product).n / tile.n), 8,
                                       std::min<int64_t>(largestGroup(target), 64));
  return tile;
}

std::vector<Attr> registerNeighbours(const Op& product, const Target& target) {
  constexpr int64_t kMostElements = 512, kMostProducts = 2048;
  const ProductSizes size = productSizes(product);
  const RegisterTile own = registerTile(product, target);
  std::vector<Attr> out;
  auto add = [&](int64_t m, int64_t n, int64_t depth, int64_t workgroup) {
    if (m > 0 && n > 0 && depth > 0 && size.m % m == 0 && size.n % n == 0 && size.inner % depth == 0 &&
        m * n <= kMostElements && m * n * depth <= kMostProducts && workgroup >= 8 &&
        workgroup <= largestGroup(target))
      out.push_back(RegisterTile{m, n, depth, workgroup}.schedule());
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

}  // namespace tg
