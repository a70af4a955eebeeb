// SPDX-License-Identifier: Apache-2.0
// coopmat: the choice of tiles, by measured rates. lower_coopmat.cpp makes the kernels.
#include "codegen/schedule_coopmat.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "codegen/fragment_epilogue.h"
#include "codegen/schedule_parts.h"
#include "ir/infer.h"
#include "ir/op_view.h"

namespace tg {
namespace {

/// A tile of a product by matrix units, in steps along k. Rates are those of 4096 x 4096 x 4096 on an H200
/// (f16 in memory, f32 sums) with every processor busy, in TFLOP/s; 0 if not measured.
struct CoopmatTiling {
  int64_t m, n, warpM, warpN;
  double rate;
  int64_t resident = 1;     ///< workgroups that run on a processor at a time
  bool simpleOnly = false;  ///< whether it suits simple regions alone (isSimple)
  /// Terms of k; more suit only products that give each processor one workgroup at most.
  int64_t step = kStep;
  static constexpr int64_t kStep = 32;
  int64_t subgroups() const { return m / warpM * (n / warpN); }
  int64_t groups(const ProductSizes& size) const {
    return size.batch * ((size.m + m - 1) / m) * ((size.n + n - 1) / n);
  }
  int64_t invocations(const Target& target) const { return subgroups() * target.subgroup; }
  /// Shared memory of both tiles, with padding behind each row, and of patches of the least width.
  int64_t leastBytes(bool split) const {
    return (m * (step + kEight) + step * (n + kEight)) * 2 * (split ? 2 : 1) +
           subgroups() * kSide * (kSide + kPatchPad) * 4;
  }
  bool fits(const Target& target, bool split) const {
    return invocations(target) <= largestGroup(target) &&
           gives(target, LimitId::sharedBytes, leastBytes(split));
  }
  CoopmatSchedule schedule() const { return {.tile = {m, n, step}, .warp = {warpM, warpN}}; }
};

/// If both operands have 16 bits in memory, what is in flight from there takes 24 registers at most. Where a workgroup waits
/// for its loads and no other runs meanwhile, longer steps are fewer waits: on an H100 64 x 1024 by 1024 x 256 in slices
/// took 5.8 µs instead of 6.7, 115 products of up to 132 workgroups 0.95 times as long; larger ones take up to 1.3 times.
/// The smallest tiles are for products that leave most processors idle: on an H200, 64 x 256 by 256 x 1024 took 5.7 µs with
/// 64 x 64 and 4.9 with 32 x 32, four products of 64 x 256 by 256 x 256 7.6 and 5.7. Their rate is chosen such that one alone
/// takes 0.7 times as long as 64 x 64.
constexpr CoopmatTiling kNarrowTilings[] = {
    {128, 256, 64, 64, 348},
    {192, 192, 96, 48, 330, 1, true},
    {128, 192, 64, 48, 292},
    {128, 128, 64, 64, 329, 2},
    {64, 64, 32, 32, 180, 2},
    {64, 64, 32, 32, 190, 2, false, 64},
    {32, 32, 16, 16, 68, 2, false, 64},
};
/// Other operands are in flight as f32, in twice the registers.
constexpr CoopmatTiling kLarge = {128, 128, 64, 32, 0}, kSmall = {64, 64, 32, 32, 0};
/// For f32x3, whose tiles take twice the shared memory.
constexpr CoopmatTiling kSplitTilings[] = {
    {128, 128, 64, 32, 100},
    {64, 128, 32, 32, 70},
    {64, 64, 32, 32, 60, 2},
};
/// The time of one workgroup alone on a processor, relative to that of two side by side. Chosen by hand.
constexpr double kAlone = 0.75;
/// Up to this much shared memory, an H200 runs two workgroups on a processor.
constexpr int64_t kTwoGroups = 24576;

/// Whether matrix units may compute a product. Not if most of a matrix would be outside, and not on targets that
/// multiply in registers. These are CPUs, whose drivers expand matrices into scalar code: Mesa 26 takes minutes to
/// compile a tile of 64x64.
bool suitsCoopmat(const Op& product, const Target& target) {
  const auto size = productSizes(product);
  return as::matmul(product).precision() != "f32" && target.multiplies(factorType(product)) &&
         target.matmul != "register" && std::min({size.m, size.n, size.inner}) >= 16;
}

/// Whether an operand is a view of, or a cast from, a tensor of the factors' type, so that its words can be copied.
/// Not windows along the last axis, where no eight elements are contiguous.
bool isNarrowInMemory(const Value* v, DType dtype) {
  while (v->def && (v->def->code == Opcode::cast || v->def->info().has(table::view))) {
    const Op& op = *v->def;
    if (op.code == Opcode::unfold &&
        normalAxis(as::unfold(op).axis(), op.in(0)->type.rank()) == op.in(0)->type.rank() - 1)
      return false;
    v = v->def->in(0);
    if (v->type.dtype == dtype) return true;
  }
  return v->type.dtype == dtype;
}

std::vector<CoopmatTiling> tilings(const Op& product) {
  const DType dtype = factorType(product);
  if (isSplit(product)) return {std::begin(kSplitTilings), std::end(kSplitTilings)};
  if (isNarrowInMemory(as::matmul(product).lhs(), dtype) &&
      isNarrowInMemory(as::matmul(product).rhs(), dtype))
    return {std::begin(kNarrowTilings), std::end(kNarrowTilings)};
  return {kLarge, kSmall};
}

/// Whether a region is a product without windows, with one result and nothing but sums and scaling behind it. Larger tiles
/// do not pay otherwise: on an H100, tiles of 192 x 192 took 58 µs for 12608 x 1536 by 1536 x 384 in bf16 and those of
/// 128 x 192 took 87; but for 12608 x 384 by 384 x 1536 with GELU they took 112, and those of 128 x 256 took 95.
bool isSimple(const Op& fused) {
  auto isPlain = [](const Op* op) {
    switch (op->code) {
    case Opcode::matmul:
    case Opcode::add:
    case Opcode::sub:
    case Opcode::mul:
    case Opcode::neg:
    case Opcode::cast:
    case Opcode::constant:
    case Opcode::yield: return true;
    default: return op->code != Opcode::unfold && op->info().has(table::view);
    }
  };
  const OpList& ops = fused.regions[0]->ops;
  return fused.regions[0]->terminator()->operands.size() == 1 && std::ranges::all_of(ops, isPlain);
}

/// The estimated time of a product, in one unit for all tilings: processors compute rounds of tiles, and the last
/// round may leave some processors idle.
double timeOf(const CoopmatTiling& tiling, const ProductSizes& size, const Target& target) {
  const int64_t each = (tiling.groups(size) + target.processors - 1) / target.processors;
  const int64_t full = each / tiling.resident, rest = each % tiling.resident;
  const double round = static_cast<double>(tiling.resident * tiling.m * tiling.n) / tiling.rate;
  return (static_cast<double>(full) + (rest ? kAlone : 0)) * round;
}

}  // namespace

DType factorType(const Op& op) { return as::matmul(op).precision() == "bf16" ? DType::bf16 : DType::f16; }

bool alongK(const Product& p, const CoopmatSchedule& schedule, int which) {
  return liesAlongK(p, which, p.k) != schedule.turned[static_cast<size_t>(which)];
}

int64_t narrowCount(std::span<Value* const> values) {
  return std::ranges::count_if(values, [](const Value* value) { return isNarrow(value->type.dtype); });
}

/// Bytes of shared memory for both operands' tiles and the subgroups' patches, whose rows have `patchRow` bytes.
static int64_t coopmatBytes(const Product& p, const CoopmatSchedule& schedule, int64_t patchRow) {
  const auto& tile = schedule.tile;
  const auto& warp = schedule.warp;
  int64_t sum = tile[0] / warp[0] * (tile[1] / warp[1]) * kSide * patchRow;
  for (int which = 0; which < 2; ++which) {
    int64_t rows = tile[static_cast<size_t>(which)], columns = tile[2];
    if (!alongK(p, schedule, which)) std::swap(rows, columns);
    sum += rows * (columns + kEight) * 2 * (isSplit(*p.op) ? 2 : 1);
  }
  return sum;
}

/// The tiling with the least estimated time. If rates are not known, the large one if its workgroups fill half the
/// device, else the small one.
template <>
std::optional<CoopmatSchedule> choose(const Op& fused, const Target& target) {
  const Op& product = *contractionOf(fused);
  if (!suitsCoopmat(product, target)) return {};
  const ProductSizes size = productSizes(product);
  const CoopmatTiling* best = nullptr;
  const std::vector<CoopmatTiling> all = tilings(product);
  for (const CoopmatTiling& each : all) {
    if (!each.fits(target, isSplit(product)) || (each.simpleOnly && !isSimple(fused))) continue;
    if (each.step > each.kStep && (each.groups(size) > target.processors || size.inner <= each.step))
      continue;
    if (each.rate == 0) {
      const bool busy = each.groups(size) * each.invocations(target) >= target.parallel / 2;
      if (!best && (busy || &each == &all.back())) best = &each;
    } else if (!best || timeOf(each, size, target) < timeOf(*best, size, target)) {
      best = &each;
    }
  }
  if (!best) return {};
  return best->schedule();
}

CoopmatSchedule arranged(const Op& fused, const Target& target, CoopmatSchedule schedule) {
  const std::unique_ptr<PlainRegion> region = plainRegion(fused);
  const Product p = productIn(*region);
  if (!p.op) return schedule;
  schedule.turned = turnedOperands(fused, *region, p, p.k);
  // 16-bit results go through one patch, one after the other; f32 results of matrices in registers need none.
  const auto operands = FragmentEpilogue::operandsOf(fused, *region, p, target);
  if (operands && narrowCount(region->yields) == 0) return schedule;
  auto patchRow = [&](int64_t columns) {
    return operands ? narrowPatchColumns(columns) * kEight * 2 : (columns + kPatchPad) * 4;
  };
  // The widest patch that lets two workgroups share a processor, else the widest that fits: wide patches make long
  // stores and few copies of the epilogue's code.
  auto fits = [&](int64_t most) {
    for (schedule.patch = schedule.warp[1]; schedule.patch >= kSide; schedule.patch -= kSide)
      if (schedule.warp[1] % schedule.patch == 0 &&
          coopmatBytes(p, schedule, patchRow(schedule.patch)) <= most)
        return true;
    return false;
  };
  const int64_t limit = limitOf(target, LimitId::sharedBytes);
  if (fits(std::min(kTwoGroups, limit)) || fits(limit)) return schedule;
  if (isSplit(*p.op))
    for (const CoopmatTiling& each : kSplitTilings) {
      const CoopmatSchedule other = each.schedule();
      if (other.tile[0] > schedule.tile[0]) continue;
      schedule.tile = other.tile, schedule.warp = other.warp;
      if (fits(limit)) return schedule;
    }
  schedule.patch = kSide;
  return schedule;
}

std::vector<Schedule> neighbours(const Op& fused, const Target& target, const CoopmatSchedule&) {
  std::vector<Schedule> out;
  const Op* product = contractionOf(fused);
  if (!product) return out;
  for (const CoopmatTiling& each : tilings(*product))
    if (each.fits(target, isSplit(*product))) out.push_back(each.schedule());
  if (auto shared = choose<SharedMatmulSchedule>(*product, target)) out.push_back(*shared);
  return out;
}

}  // namespace tg
