// Schedules of contractions.
#include <algorithm>
#include <cstdint>
#include <optional>

#include "codegen/schedule.h"
#include "codegen/schedule_parts.h"

namespace tg {

namespace {

/// A blocking of a product staged in shared memory, and when it is chosen.
struct SharedBlocking {
  int64_t tile[2], block[2], depth, slices;
  int64_t leastBlocks;  ///< of 32 × 32 elements, per parallel unit
  int64_t leastInner, mostInner;
  int64_t places() const { return block[0] * block[1]; }
  int64_t invocations() const { return places() / (tile[0] * tile[1]) * slices; }
  int64_t bytes() const {
    return 4 * ((block[0] + block[1]) * (depth + 4) + (slices > 1 ? slices * places() : 0));
  }
  bool fits(const Target& target) const {
    return invocations() <= largestGroup(target) && bytes() <= target.sharedBytes;
  }
  Attr schedule() const {
    AttrList members = {{"tile", Attr::ints({tile[0], tile[1]})},
                        {"shared", Attr::ints({block[0], block[1], depth})}};
    if (slices > 1) members.push_back({"slices", Attr::of(slices)});
    return scheduleAttr("matmul", std::move(members));
  }
};

/// The first that fits is taken. Measured on an H200 (132 processors): products of thousands of blocks reach
/// 42 TFLOP/s with 8 × 8 elements an invocation and 26 with 4 × 4, which fill the device with fewer blocks;
/// twice the columns take 3 to 18 % less time, where they are not mostly outside. Over a short k, as of
/// attention's scores, the loads and the results are what is waited for, and twice the invocations take 15 to
/// 30 % less. Fewer blocks still wait for memory in every step, so that longer steps shared by slices win
/// (2048 × 128 over 512: 16.5 us in two slices, 22.6 in one).
constexpr SharedBlocking kSharedBlockings[] = {
    {{8, 4}, {64, 64}, 16, 1, 32, 1, 64},        {{8, 8}, {64, 128}, 16, 1, 24, 1, INT64_MAX},
    {{8, 8}, {64, 64}, 16, 1, 32, 1, INT64_MAX}, {{8, 4}, {64, 64}, 16, 1, 16, 1, INT64_MAX},
    {{4, 4}, {64, 64}, 16, 1, 8, 1, INT64_MAX},  {{4, 4}, {32, 32}, 16, 1, 6, 1, INT64_MAX},
    {{4, 4}, {32, 32}, 16, 1, 0, 1, 32},         {{4, 4}, {32, 32}, 32, 2, 2, 1, INT64_MAX},
    {{4, 4}, {32, 32}, 32, 4, 1, 1, INT64_MAX},  {{4, 4}, {32, 32}, 48, 4, 0, 512, INT64_MAX},
    {{4, 4}, {32, 32}, 32, 4, 0, 1, INT64_MAX},  {{4, 4}, {32, 32}, 16, 1, 0, 1, INT64_MAX},
};

std::optional<Attr> sharedSchedule(const Op& product, const Target& target) {
  const auto [m, n, inner, batch] = productSizes(product);
  for (const SharedBlocking& each : kSharedBlockings) {
    if (!each.fits(target)) continue;
    auto blocks = [](int64_t extent, int64_t block) { return (extent + block - 1) / block; };
    int64_t across = blocks(n, each.block[1]);
    int64_t narrow = blocks(n, each.block[0]) * each.block[0];
    if (8 * across * each.block[1] > 9 * narrow) continue;  // mostly more columns that are outside
    int64_t covered = batch * blocks(m, each.block[0]) * across * (each.places() / (32 * 32));
    if (covered >= each.leastBlocks * target.units() && inner >= each.leastInner && inner <= each.mostInner)
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
    for (const SharedBlocking& each : kSharedBlockings)
      if (each.fits(target)) out.push_back(each.schedule());
    return out;
  }
  return registerNeighbours(product, target);
}

std::vector<Attr> sharedMatmulSchedules() {
  std::vector<Attr> out;
  for (const SharedBlocking& each : kSharedBlockings)
    if (Attr schedule = each.schedule(); std::find(out.begin(), out.end(), schedule) == out.end())
      out.push_back(std::move(schedule));
  return out;
}

}  // namespace tg
