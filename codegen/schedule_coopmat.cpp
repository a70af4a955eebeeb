// SPDX-License-Identifier: Apache-2.0
// coopmat: the choice of tiles, by measured rates. lower_coopmat.cpp makes the kernels.
#include "codegen/schedule_coopmat.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "codegen/fragment_epilogue.h"
#include "codegen/schedule_parts.h"
#include "ir/divide.h"
#include "ir/infer.h"
#include "ir/op_view.h"

namespace tg {
namespace {

/// The time in µs of a round of workgroups, one or two on each processor, that sum k terms: a fixed part, and a part for
/// each 1024 terms.
struct RoundTime {
  double fixed = 0, per1024 = 0;
  double of(int64_t k) const { return fixed + per1024 * static_cast<double>(k) / 1024; }
};

constexpr int64_t kSmallSide = 64;  ///< of tiles that any product may use

/// A tile of a product by matrix units, in steps along k.
struct CoopmatTiling {
  int64_t m, n, warpM, warpN;
  int64_t step = 32;              ///< terms of k
  RoundTime alone;                ///< with one workgroup on each processor
  std::optional<RoundTime> pair;  ///< with two, if two fit
  bool simpleOnly = false;        ///< whether it suits simple regions alone (isSimple)
  int64_t subgroups() const { return m / warpM * (n / warpN); }
  int64_t groups(const ProductSizes& size) const {
    return size.batch * divideCeil(size.m, m) * divideCeil(size.n, n);
  }
  int64_t invocations(const Target& target) const { return subgroups() * target.subgroup; }
  /// Whether at least half of a large tile would lie outside of the product.
  bool wastes(const ProductSizes& size) const {
    return (m > kSmallSide && m >= 2 * size.m) || (n > kSmallSide && n >= 2 * size.n);
  }
  /// Bytes of both operands' tiles, about: the padding depends on how they are loaded.
  int64_t tileBytes() const { return (m + n) * (step + kEight) * 2; }
  CoopmatSchedule schedule() const { return {.tile = {m, n, step}, .warp = {warpM, warpN}}; }
};

/// If both operands have 16 bits in memory, what is in flight from there takes 32 registers at most. A workgroup that
/// is alone on a processor waits for its loads in each step, so that longer steps are faster even where they need more
/// subgroups.
///
/// Times were fitted to 20 products of 512 x 512 x 512 to 4096 x 4096 x 4096 that one H200 computed after each other, from
/// bf16 to bf16 with either operand transposed and to f32, with a mean error of 5 %. Those of the first five are now
/// fitted to the products of GPT-2 124M's step there, which have up to 191 rounds; each kernel takes another 5 µs. Those
/// of the last two were chosen from few measurements: 64 x 256 by 256 x 1024 takes 0.85 of the time of tiles of 64 x 64.
constexpr CoopmatTiling kNarrowTilings[] = {
    {128, 256, 64, 64, 32, {4.5, 23.7}, {}},
    {192, 192, 96, 48, 32, {6.2, 24.3}, {}, true},
    {128, 192, 64, 48, 64, {3.6, 16.9}, {}},
    {192, 128, 48, 64, 64, {3.6, 16.9}, {}},
    {128, 128, 64, 32, 64, {2.4, 13.4}, {}},
    {128, 128, 64, 64, 32, {4.9, 18.4}, RoundTime{5, 26}},
    {64, 64, 32, 32, 64, {0.3, 11.5}, RoundTime{1.6, 11}},
    {64, 64, 32, 32, 32, {1, 14}, RoundTime{1.8, 18}},
    {32, 32, 16, 16, 64, {0.2, 8}, RoundTime{0.4, 16}},
};
/// Other operands are in flight as f32, in twice the registers.
constexpr CoopmatTiling kLarge = {128, 128, 64, 32, 32, {}, {}}, kSmall = {64, 64, 32, 32, 32, {}, {}};
/// For f32x3, whose tiles take twice the shared memory. Times in proportion to the rates of 4096 x 4096 x 4096.
constexpr CoopmatTiling kSplitTilings[] = {
    {128, 128, 64, 32, 32, {0, 164}, {}},
    {64, 128, 32, 32, 32, {0, 117}, {}},
    {64, 64, 32, 32, 32, {0, 102}, RoundTime{0, 136}},
};
/// Up to this much shared memory, an H200 runs two workgroups on a processor, if their sums fit in its registers: those of
/// 128 x 128 do.
constexpr int64_t kTwoGroups = 24576, kSumsOfTwo = 128 * 128;

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

/// The estimated time of a product, in µs on an H200: processors compute rounds of tiles, and the last round may leave some
/// processors idle.
double timeOf(const CoopmatTiling& tiling, const ProductSizes& size, const Target& target) {
  const int64_t each = divideCeil(tiling.groups(size), target.processors);
  const int64_t pairs = tiling.pair ? each / 2 : 0;
  const int64_t terms = alignTo(size.inner, tiling.step);
  const double ofPairs = pairs > 0 ? static_cast<double>(pairs) * tiling.pair->of(terms) : 0;
  return ofPairs + static_cast<double>(each - 2 * pairs) * tiling.alone.of(terms);
}

}  // namespace

DType factorType(const Op& op) { return as::matmul(op).precision() == "bf16" ? DType::bf16 : DType::f16; }

bool alongK(const Product& p, const CoopmatSchedule& schedule, int which) {
  return liesAlongK(p, which, p.k) != schedule.turned[static_cast<size_t>(which)];
}

int64_t narrowCount(std::span<Value* const> values) {
  return std::ranges::count_if(values, [](const Value* value) { return isNarrow(value->type.dtype); });
}

std::array<int64_t, 2> stageExtents(const Product& p, const CoopmatSchedule& schedule, int which) {
  int64_t rows = schedule.tile[static_cast<size_t>(which)], columns = schedule.tile[2];
  if (!alongK(p, schedule, which)) std::swap(rows, columns);
  return {rows, columns / kEight};
}

/// The number of subgroups in a workgroup.
static int64_t subgroupsOf(const CoopmatSchedule& schedule) {
  return schedule.tile[0] / schedule.warp[0] * (schedule.tile[1] / schedule.warp[1]);
}

std::optional<int> stageForPatches(const Product& p, const CoopmatSchedule& schedule) {
  for (int which = 0; which < 2; ++which) {
    const auto [rows, eights] = stageExtents(p, schedule, which);
    if (rows >= subgroupsOf(schedule) * kSide && eights >= schedule.patch / kEight) return which;
  }
  return {};
}

/// Bytes of shared memory for both operands' tiles and the subgroups' patches, whose rows have `patchRow` bytes.
static int64_t coopmatBytes(const Product& p, const CoopmatSchedule& schedule, int64_t patchRow) {
  int64_t sum = subgroupsOf(schedule) * kSide * patchRow;
  for (int which = 0; which < 2; ++which) {
    const auto [rows, eights] = stageExtents(p, schedule, which);
    sum += rows * (eights + 1) * kEight * 2 * (isSplit(*p.op) ? 2 : 1);
  }
  return sum;
}

namespace {

/// Sets the fields of schedules that depend on the region.
class Arranger {
 public:
  Arranger(const Op& fused, const Target& target)
      : fused_(fused), limit_(limitOf(target, LimitId::sharedBytes)), region_(plainRegion(fused)),
        product_(productIn(*region_)) {
    if (product_.op) operands_ = FragmentEpilogue::operandsOf(fused, *region_, product_, target);
  }

  /// Sets `turned` and `patch`. False if the kernel would not fit in shared memory.
  bool arrange(CoopmatSchedule& schedule) const {
    if (!product_.op) return true;
    schedule.turned = turnedOperands(fused_, *region_, product_, product_.k);
    // 16-bit results go through one patch, one after the other; f32 results of matrices in registers need none.
    if (operands_ && narrowCount(region_->yields) == 0) return coopmatBytes(product_, schedule, 0) <= limit_;
    // The widest patch that lets two workgroups share a processor, else the widest that fits: wide patches make long
    // stores and few copies of the epilogue's code.
    const bool two = schedule.tile[0] * schedule.tile[1] <= kSumsOfTwo;
    if ((two && fits(schedule, std::min(kTwoGroups, limit_))) || fits(schedule, limit_)) return true;
    schedule.patch = kSide;
    return false;
  }

 private:
  /// Bytes of a row of a patch, 0 if patches lie in an operand's tile.
  int64_t patchRow(const CoopmatSchedule& schedule) const {
    if (!operands_) return (schedule.patch + kPatchPad) * 4;
    return stageForPatches(product_, schedule) ? 0 : narrowPatchColumns(schedule.patch) * kEight * 2;
  }
  /// Sets the widest patch with which the kernel takes at most so many bytes.
  bool fits(CoopmatSchedule& schedule, int64_t most) const {
    for (schedule.patch = schedule.warp[1]; schedule.patch >= kSide; schedule.patch -= kSide)
      if (schedule.warp[1] % schedule.patch == 0 &&
          coopmatBytes(product_, schedule, patchRow(schedule)) <= most)
        return true;
    return false;
  }

  const Op& fused_;
  int64_t limit_;
  std::unique_ptr<PlainRegion> region_;
  Product product_;
  std::optional<FragmentEpilogue::Operands> operands_;
};

}  // namespace

/// The tiling with the least estimated time. If times are not known, the large one if its workgroups fill half the
/// device, else the small one.
template <>
std::optional<CoopmatSchedule> choose(const Op& fused, const Target& target) {
  const Op& product = *contractionOf(fused);
  if (!suitsCoopmat(product, target)) return {};
  const ProductSizes size = productSizes(product);
  const Arranger arranger(fused, target);
  const std::vector<CoopmatTiling> all = tilings(product);
  std::optional<CoopmatSchedule> best;
  double least = 0;
  for (const CoopmatTiling& each : all) {
    CoopmatSchedule schedule = each.schedule();
    if (each.invocations(target) > largestGroup(target) || (each.simpleOnly && !isSimple(fused)) ||
        (each.step > kSmall.step && size.inner <= each.step) || each.wastes(size) ||
        !arranger.arrange(schedule))
      continue;
    const bool timed = each.alone.per1024 > 0;
    const double time = timed ? timeOf(each, size, target) : 0;
    const bool busy = each.groups(size) * each.invocations(target) >= target.parallel / 2;
    if (timed ? !best || time < least : !best && (busy || &each == &all.back()))
      best = each.schedule(), least = time;
  }
  return best;
}

double narrowProductTime(const ProductSizes& size, const Target& target) {
  double least = std::numeric_limits<double>::infinity();
  for (const CoopmatTiling& each : kNarrowTilings)
    if (each.invocations(target) <= largestGroup(target) && !each.wastes(size) &&
        gives(target, LimitId::sharedBytes, each.tileBytes()))
      least = std::min(least, timeOf(each, size, target));
  return least;
}

CoopmatSchedule arranged(const Op& fused, const Target& target, CoopmatSchedule schedule) {
  Arranger(fused, target).arrange(schedule);
  return schedule;
}

std::vector<Schedule> neighbours(const Op& fused, const Target& target, const CoopmatSchedule&) {
  std::vector<Schedule> out;
  const Op* product = contractionOf(fused);
  if (!product) return out;
  std::vector<CoopmatTiling> all = tilings(*product);
  const ProductSizes size = productSizes(*product);
  auto time = [&](const CoopmatTiling& tiling) { return timeOf(tiling, size, target); };
  std::ranges::stable_sort(all, {}, time);
  const Arranger arranger(fused, target);
  for (const CoopmatTiling& each : all)
    if (CoopmatSchedule schedule = each.schedule();
        each.invocations(target) <= largestGroup(target) && arranger.arrange(schedule))
      out.push_back(each.schedule());
  if (auto shared = choose<SharedMatmulSchedule>(*product, target)) out.push_back(*shared);
  return out;
}

}  // namespace tg
