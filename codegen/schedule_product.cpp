// Schedules of contractions.
#include <algorithm>
#include <cstdint>
#include <optional>

#include "codegen/schedule.h"
#include "codegen/schedule_parts.h"

namespace tg {

namespace {

/// Extents of a contraction; batch is the product of the leading axes.
struct ProductSizes {
  int64_t m, n, inner, batch;
};
ProductSizes productSizes(const Op& product) {
  const Shape &shape = product.result()->type.shape, &a = product.in(0)->type.shape;
  int64_t m = shape[shape.rank() - 2], n = shape.back();
  int64_t inner = a[a.rank() - (product.flag("transpose_a") ? 2 : 1)];
  return {m, n, inner, shape.elements() / (m * n)};
}

/// A blocking of a product staged in shared memory, and when it is chosen.
struct SharedBlocking {
  int64_t tile, block, depth, slices;
  int64_t leastBlocks;  ///< of 32 × 32 elements, per parallel unit
  int64_t leastInner, mostInner;
  int64_t invocations() const { return block * block / (tile * tile) * slices; }
  int64_t bytes() const { return 4 * (2 * block * (depth + 4) + (slices > 1 ? slices * block * block : 0)); }
  bool fits(const Target& target) const {
    return invocations() <= largestGroup(target) && bytes() <= target.sharedBytes;
  }
  Attr schedule() const {
    AttrList members = {{"tile", Attr::ints({tile, tile})}, {"shared", Attr::ints({block, block, depth})}};
    if (slices > 1) members.push_back({"slices", Attr::of(slices)});
    return scheduleAttr("matmul", std::move(members));
  }
};

/// The first that fits is taken. Measured on an H200 (132 processors): products of thousands of blocks reach
/// 42 TFLOP/s with 8 × 8 elements an invocation and 26 with 4 × 4, which fill the device with fewer blocks.
/// Fewer still wait for memory in every step, so that longer steps shared by slices win (2048 × 128 over
/// 512: 16.5 us in two slices, 22.6 in one).
constexpr SharedBlocking kSharedBlockings[] = {
    {8, 64, 16, 1, 32, 1, INT64_MAX},  {4, 64, 16, 1, 8, 1, INT64_MAX}, {4, 32, 16, 1, 6, 1, INT64_MAX},
    {4, 32, 16, 1, 0, 1, 32},          {4, 32, 32, 2, 2, 1, INT64_MAX}, {4, 32, 32, 4, 1, 1, INT64_MAX},
    {4, 32, 48, 4, 0, 512, INT64_MAX}, {4, 32, 32, 4, 0, 1, INT64_MAX}, {4, 32, 16, 1, 0, 1, INT64_MAX},
};

std::optional<Attr> sharedSchedule(const Op& product, const Target& target) {
  const auto [m, n, inner, batch] = productSizes(product);
  for (const SharedBlocking& each : kSharedBlockings) {
    if (!each.fits(target)) continue;
    auto blocks = [&](int64_t extent) { return (extent + each.block - 1) / each.block; };
    int64_t covered = batch * blocks(m) * blocks(n) * (each.block / 32) * (each.block / 32);
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

/// A tile of the product in registers.
struct RegisterTile {
  int64_t m, n, workgroup;
  Attr schedule() const {
    return scheduleAttr("matmul", {{"tile", Attr::ints({m, n})}, {"workgroup", Attr::of(workgroup)}});
  }
};

RegisterTile registerTile(const ProductSizes& size, const Target& target) {
  const int64_t m = size.m, n = size.n, batch = size.batch;
  // A tile as large as registers allow while enough invocations remain to fill the device.
  int64_t tileM = divisor(m, {8, 7, 6, 5, 4, 3, 2, 1}), tileN = divisor(n, {8, 4, 7, 6, 5, 3, 2, 1});
  auto invocations = [&] { return batch * (m / tileM) * (n / tileN); };
  if (invocations() < target.parallel && tileN == 8) tileN = 4;
  while (invocations() < target.parallel && tileM % 2 == 0 && tileM > 2) tileM /= 2;
  int64_t workgroup =
      std::clamp<int64_t>(roundUpToPowerOfTwo(n / tileN), 8, std::min<int64_t>(largestGroup(target), 64));
  return {tileM, tileN, workgroup};
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
  return registerTile(size, target).schedule();
}

std::vector<Attr> matmulNeighbours(const Op& product, const Target& target, const Attr& chosen) {
  const ProductSizes size = productSizes(product);
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
  // On a CPU with 8 floats a register 8 x 16 and 4 x 16 are often as good as 8 x 8; more only spill.
  constexpr int64_t kMostElements = 128;
  const RegisterTile own = registerTile(size, target);
  auto add = [&](int64_t m, int64_t n, int64_t workgroup) {
    if (m > 0 && n > 0 && size.m % m == 0 && size.n % n == 0 && m * n <= kMostElements && workgroup >= 8 &&
        workgroup <= largestGroup(target))
      out.push_back(RegisterTile{m, n, workgroup}.schedule());
  };
  add(own.m, own.n * 2, own.workgroup);
  add(own.m, own.n, own.workgroup / 2);
  if (own.m % 2 == 0) add(own.m / 2, own.n * 2, own.workgroup);
  if (own.m % 2 == 0) add(own.m / 2, own.n, own.workgroup);
  add(own.m, own.n, own.workgroup * 2);
  if (own.n % 8 == 0) add(own.m, own.n / 2, own.workgroup);
  add(own.m * 2, own.n, own.workgroup);
  return out;
}

std::vector<Attr> sharedMatmulSchedules() {
  std::vector<Attr> out;
  for (const SharedBlocking& each : kSharedBlockings)
    if (Attr schedule = each.schedule(); std::find(out.begin(), out.end(), schedule) == out.end())
      out.push_back(std::move(schedule));
  return out;
}

}  // namespace tg
