// SPDX-License-Identifier: Apache-2.0
// Schedules of contractions.
#include <algorithm>
#include <cstdint>
#include <optional>

#include "codegen/schedule.h"
#include "codegen/schedule_parts.h"

namespace tg {

namespace {

/// A blocking, and when it is chosen.
struct BlockingChoice {
  SharedBlocking blocking;
  int64_t leastBlocks;  ///< of 32 × 32 elements, per parallel unit
  int64_t leastInner = 1, mostInner = INT64_MAX;
  bool bothAlongK = false;  ///< only where both operands lie along k in memory
  bool fits(const Target& target) const {
    return blocking.invocations() <= largestGroup(target) && blocking.bytes() <= target.sharedBytes;
  }
  Attr schedule() const {
    const auto& [tile, block, depth, slices] = blocking;
    AttrList members = {{"tile", Attr::ints({tile[0], tile[1]})},
                        {"shared", Attr::ints({block[0], block[1], depth})}};
    if (slices > 1) members.push_back({"slices", Attr::of(slices)});
    return scheduleAttr("matmul", std::move(members));
  }
};

/// The first that fits is taken. Measured on an H200 (132 processors, fma ceiling 61.9 TFLOP/s): products of
/// thousands of blocks reach 44 to 49 TFLOP/s with 8 × 8 elements an invocation; 4 × 4 fill the device with
/// fewer blocks. Twice the columns take 3 to 18 % less time, where they are not mostly outside, else twice
/// the rows (44 against 39, 64 columns). What lies along k is turned on its way to shared memory, which more
/// invocations do better: where both operands do, 128 × 128 reach 46.6 and 64 × 128 reach 44.4. Fewer blocks
/// still wait for memory in every step, so that longer steps shared by slices win (2048 × 128 over 512: 16.5
/// us in two slices, 22.6 in one).
constexpr BlockingChoice kSharedBlockings[] = {
    {{{8, 8}, {128, 128}, 16}, 32, 65, INT64_MAX, true},
    {{{8, 8}, {64, 128}, 16}, 24},
    {{{8, 8}, {128, 64}, 16}, 24},
    {{{8, 8}, {64, 64}, 16}, 32},
    {{{8, 4}, {64, 64}, 16}, 16},
    {{{4, 4}, {64, 64}, 16}, 8},
    {{{4, 4}, {32, 32}, 16}, 6},
    {{{4, 4}, {32, 32}, 16}, 0, 1, 32},
    {{{4, 4}, {32, 32}, 32, 2}, 2},
    {{{4, 4}, {32, 32}, 32, 4}, 1},
    {{{4, 4}, {32, 32}, 48, 4}, 0, 512},
    {{{4, 4}, {32, 32}, 32, 4}, 0},
    {{{4, 4}, {32, 32}, 16}, 0},
};

std::optional<Attr> sharedSchedule(const Op& product, const Target& target) {
  const auto [m, n, inner, batch] = productSizes(product);
  const bool bothAlongK = !product.flag("transpose_a") && product.flag("transpose_b");
  for (const BlockingChoice& each : kSharedBlockings) {
    if (!each.fits(target) || (each.bothAlongK && !bothAlongK)) continue;
    const SharedBlocking& it = each.blocking;
    auto cover = [](int64_t extent, int64_t block) { return (extent + block - 1) / block * block; };
    int64_t rows = cover(m, it.block[0]), columns = cover(n, it.block[1]);
    // Not where it is mostly more rows or columns outside than the smaller blocks have.
    if (8 * columns > 9 * cover(n, std::min<int64_t>(it.block[1], 64)) ||
        8 * rows > 9 * cover(m, std::min<int64_t>(it.block[0], 64)))
      continue;
    if (batch * rows * columns / (32 * 32) >= each.leastBlocks * target.units() && inner >= each.leastInner &&
        inner <= each.mostInner)
      return each.schedule();
  }
  return std::nullopt;
}

/// A tile of a product by matrix units, in steps of 32.
struct CoopmatTiling {
  int64_t m, n, warpM, warpN;
  int64_t bytes;  ///< of shared memory that it stays within
  int64_t groups(const ProductSizes& size) const {
    return size.batch * ((size.m + m - 1) / m) * ((size.n + n - 1) / n);
  }
  int64_t invocations(const Target& target) const { return m / warpM * (n / warpN) * target.subgroup; }
  bool fits(const Target& target) const {
    return invocations(target) <= largestGroup(target) && target.sharedBytes >= bytes;
  }
  Attr schedule() const {
    return scheduleAttr("coopmat", {{"tile", Attr::ints({m, n, 32})}, {"warp", Attr::ints({warpM, warpN})}});
  }
};
constexpr CoopmatTiling kSmallCoopmat = {64, 64, 32, 32, 32768};
/// f32x3 holds two sums for each element, so that its large tile is half of that of f16.
CoopmatTiling largeCoopmat(const Op& product) {
  if (product.word("precision") == "f16") return {128, 128, 64, 32, 49152};
  return {64, 128, 32, 32, 49152};
}

/// Whether a product may be one of f16 by the matrix units; not where most of a matrix would lie outside.
bool suitsCoopmat(const Op& product, const Target& target) {
  const auto size = productSizes(product);
  return product.word("precision") != "f32" && target.multipliesHalves() &&
         std::min({size.m, size.n, size.inner}) >= 16;
}

/// The large tile where that many workgroups keep the device busy.
std::optional<Attr> coopmatSchedule(const Op& product, const Target& target) {
  if (!suitsCoopmat(product, target)) return {};
  const CoopmatTiling large = largeCoopmat(product);
  if (large.fits(target) &&
      large.groups(productSizes(product)) * large.invocations(target) >= target.parallel / 2)
    return large.schedule();
  if (!kSmallCoopmat.fits(target)) return {};
  return kSmallCoopmat.schedule();
}

bool stagesProduct(const ProductSizes& size, const Target& target) {
  return target.matmul == "shared" && size.m >= 16 && size.n >= 16;
}

}  // namespace

Attr matmulSchedule(const Op& product, const Target& target) {
  if (auto schedule = coopmatSchedule(product, target)) return *schedule;
  const ProductSizes size = productSizes(product);
  if (stagesProduct(size, target))
    if (std::optional<Attr> shared = sharedSchedule(product, target)) return *shared;
  return registerTile(product, target).schedule();
}

std::vector<Attr> matmulNeighbours(const Op& product, const Target& target, const Attr& chosen) {
  std::vector<Attr> out;
  if (chosen.text == "coopmat") {
    for (const CoopmatTiling& each : {largeCoopmat(product), kSmallCoopmat})
      if (each.fits(target)) out.push_back(each.schedule());
    if (auto shared = sharedSchedule(product, target)) out.push_back(*shared);
    return out;
  }
  if (chosen.find("shared")) {
    for (const BlockingChoice& each : kSharedBlockings)
      if (each.fits(target)) out.push_back(each.schedule());
    return out;
  }
  return registerNeighbours(product, target);
}

std::vector<Attr> sharedMatmulSchedules() {
  std::vector<Attr> out;
  for (const BlockingChoice& each : kSharedBlockings)
    if (Attr schedule = each.schedule(); std::find(out.begin(), out.end(), schedule) == out.end())
      out.push_back(std::move(schedule));
  return out;
}

}  // namespace tg
