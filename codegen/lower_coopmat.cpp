// SPDX-License-Identifier: Apache-2.0
// coopmat: products by the matrix units of subgroups. A workgroup computes a tile of the result: step by step
// along k it rounds what both operands have there to f16 in shared memory, whatever view or fused map they
// are read through, and each of its subgroups multiplies 16x16 matrices out of it. The sums go back through
// shared memory, where every invocation knows the place of what it holds, so that any epilogue may follow.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "codegen/lower_schedules.h"
#include "codegen/product.h"
#include "codegen/schedule_parts.h"
#include "ir/op_view.h"

namespace tg {
namespace {

constexpr int64_t kSide = 16;       ///< of a matrix
constexpr int64_t kStagePad = 8;    ///< halves behind a row: 16 bytes, so that rows start in other banks
constexpr int64_t kPatchPad = 4;    ///< floats behind a row of sums
constexpr double kLowScale = 2048;  ///< f32x3 keeps the low halves times 2^11, within f16's range
constexpr int64_t kPromoted = 128;  ///< products that f32x3 sums before an f32 addition takes them over

Type matrixType(MatrixUse use) {
  return Type::coopmat(use == MatrixUse::acc ? DType::f32 : DType::f16, kSide, kSide, use);
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
    return invocations(target) <= largestGroup(target) && gives(target, LimitId::sharedBytes, bytes);
  }
  CoopmatSchedule schedule() const { return {.tile = {m, n, 32}, .warp = {warpM, warpN}}; }
};
constexpr CoopmatTiling kSmallCoopmat = {64, 64, 32, 32, 32768};
/// f32x3 holds two sums for each element, so that its large tile is half of that of f16.
CoopmatTiling largeCoopmat(const Op& product) {
  if (as::matmul(product).precision() == "f16") return {128, 128, 64, 32, 49152};
  return {64, 128, 32, 32, 49152};
}

/// Whether a product may be one of f16 by the matrix units; not where most of a matrix would lie outside.
bool suitsCoopmat(const Op& product, const Target& target) {
  const auto size = productSizes(product);
  return as::matmul(product).precision() != "f32" && target.multiplies(DType::f16) &&
         std::min({size.m, size.n, size.inner}) >= 16;
}

/// Whether vectors of an operand lie along k.
bool alongK(const Product& p, const CoopmatSchedule& schedule, int which) {
  return liesAlongK(p, which, p.k, true) != schedule.turned[static_cast<size_t>(which)];
}

/// Shared memory for both operands' tiles and for the patches of the subgroups.
int64_t coopmatBytes(const Product& p, const CoopmatSchedule& schedule) {
  const auto& tile = schedule.tile;
  const auto& warp = schedule.warp;
  int64_t sum = tile[0] / warp[0] * (tile[1] / warp[1]) * kSide * (schedule.patch + kPatchPad) * 4;
  for (int which = 0; which < 2; ++which) {
    int64_t rows = tile[static_cast<size_t>(which)], columns = tile[2];
    if (!alongK(p, schedule, which)) std::swap(rows, columns);
    sum += rows * (columns + kStagePad) * 2 * (as::matmul(*p.op).precision() == "f32x3" ? 2 : 1);
  }
  return sum;
}

class CoopmatProduct {
 public:
  CoopmatProduct(LowerContext& c, const CoopmatSchedule& schedule, const Product& p)
      : c_(c), p_(p), schedule_(schedule), tile_(schedule.tile), warp_(schedule.warp),
        patchColumns_(schedule.patch) {}
  Result<void> run();

 private:
  /// One operand in shared memory: rows along k hold positions along m or n, or the other way round, as
  /// vectors of four come best out of the operand.
  struct Stage {
    bool alongK = false;
    int64_t block = 0, extent = 0;  ///< of the tile and of the whole, along m or n
    Index origin;
    std::vector<Value*> halves;  ///< the rounded values; of f32x3 also what they miss
  };

  Result<void> check();
  void group(const Index& group);
  void makeStage(int which, const Index& origin);
  int64_t rowsOf(const Stage& stage) const { return stage.alongK ? stage.block : depth_; }
  int64_t fours(const Stage& stage) const { return (stage.alongK ? depth_ : stage.block) / kLanes; }
  int64_t parts(const Stage& stage) const;
  std::optional<Index> cell(const Stage& stage, int64_t part);
  KV inRange(const Index& index, int64_t extent, Index* inside);
  KV read(int which, const Index& k0, const Index& row, const Index& column);
  std::vector<KV> fetch(const Index& k0);
  void stage(const std::vector<KV>& fetched);
  void write(Stage& stage, const KV& value, const Index& row, const Index& four);
  KV load(int which, int half, const Index& position, int64_t deep);
  std::vector<KV> multiply(std::vector<KV> sums);
  std::vector<KV> steps(int level, const KV& count, const KV& first, std::vector<KV> carried);
  std::vector<KV> sum();
  void store(const std::vector<KV>& sums);
  std::vector<KV> drained(const Index& cell);
  void inside(const Index& index, int64_t extent, const std::function<void(const Index&)>& body);
  void results(const Index& cell, int64_t i, int64_t j, const std::vector<KV>& values);

  size_t tiles() const { return static_cast<size_t>(warp_[0] / kSide * (warp_[1] / kSide)); }
  /// The matrices of sums: of f32x3 those of the high halves, then those with a low half.
  size_t sumsHeld() const { return tiles() * (split_ ? 2 : 1); }

  LowerContext& c_;
  Product p_;
  const CoopmatSchedule& schedule_;
  std::array<int64_t, 3> tile_;
  std::array<int64_t, 2> warp_;
  int64_t patchColumns_;
  int64_t depth_ = 0, subgroups_ = 0, invocations_ = 0, across_ = 0, count_ = 0;
  bool split_ = false;
  Stage stages_[2];
  Value* patch_ = nullptr;
  Index batch_, lane_, warpRow_, warpColumn_;
  Indices lead_;
  KV subgroup_;
};

int64_t CoopmatProduct::parts(const Stage& stage) const {
  return (rowsOf(stage) * fours(stage) + invocations_ - 1) / invocations_;
}

Result<void> CoopmatProduct::check() {
  bool fits = tile_[2] % kSide == 0 && patchColumns_ % kSide == 0 && warp_[1] % patchColumns_ == 0;
  for (size_t axis = 0; axis < 2; ++axis)
    fits = fits && warp_[axis] % kSide == 0 && tile_[axis] % warp_[axis] == 0;
  if (!fits) return failAt(c_.fused.loc, fmt::format("schedule {} is malformed", c_.schedule.str()));
  if (!c_.target.multiplies(DType::f16))
    return failAt(c_.fused.loc, fmt::format("schedule {} needs `coopmat`, which target '{}' lacks",
                                            c_.schedule.str(), c_.target.name));
  split_ = as::matmul(*p_.op).precision() == "f32x3";
  if (as::matmul(*p_.op).precision() == "f32")
    return failAt(c_.fused.loc,
                  fmt::format("schedule {} rounds to f16, the product asks for f32", c_.schedule.str()));
  depth_ = tile_[2];
  across_ = tile_[1] / warp_[1];
  subgroups_ = tile_[0] / warp_[0] * across_;
  invocations_ = subgroups_ * c_.target.subgroup;
  count_ = (p_.k + depth_ - 1) / depth_;
  for (int which = 0; which < 2; ++which) {
    stages_[which].alongK = alongK(p_, schedule_, which);
    stages_[which].block = tile_[static_cast<size_t>(which)];
    stages_[which].extent = which == 0 ? p_.m : p_.n;
  }
  if (kSide * kSide / kLanes % c_.target.subgroup != 0)
    return failAt(c_.fused.loc,
                  fmt::format("schedule {} needs subgroups of at most {}, those of target '{}' have {}",
                              c_.schedule.str(), kSide * kSide / kLanes, c_.target.name, c_.target.subgroup));
  return {};
}

void CoopmatProduct::makeStage(int which, const Index& origin) {
  Stage& stage = stages_[which];
  stage.origin = origin;
  Type type =
      Type::buffer(DType::f16, kLanes, {rowsOf(stage), fours(stage) + kStagePad / kLanes}, BufMode::shared);
  stage.halves = {c_.kernel.sharedBuffer(type, which == 0 ? "tile_a" : "tile_b")};
  if (split_) stage.halves.push_back(c_.kernel.sharedBuffer(type, which == 0 ? "low_a" : "low_b"));
}

/// Whether index < extent, and an index that always is.
KV CoopmatProduct::inRange(const Index& index, int64_t extent, Index* inside) {
  *inside = index;
  if (c_.space.max(index) < extent) return KernelBuilder::literal(DType::i1, 1);
  KV value = c_.space.materialize(index);
  KV cond = c_.kernel.op(Opcode::k_lt, {value, KernelBuilder::u32(extent)}, DType::i1);
  *inside =
      c_.space.variable(c_.kernel.select(cond, value, KernelBuilder::u32(0)), extent, c_.space.align(index));
  return cond;
}

/// Four neighbours of an operand, 0 where it ends: row and column are of the stage, the column its first.
KV CoopmatProduct::read(int which, const Index& k0, const Index& row, const Index& column) {
  const Stage& stage = stages_[which];
  const int64_t outerExtent = stage.alongK ? stage.extent : p_.k,
                innerExtent = stage.alongK ? p_.k : stage.extent;
  Index outer = c_.space.add(stage.alongK ? stage.origin : k0, row);
  Index inner = c_.space.add(stage.alongK ? k0 : stage.origin, column);
  auto at = [&](const Index& outerIn, const Index& innerIn) {
    const Index &position = stage.alongK ? outerIn : innerIn, &k = stage.alongK ? innerIn : outerIn;
    return plainElement(c_.emitter, p_, which, lead_, which == 0 ? position : k, which == 0 ? k : position);
  };
  Index outerIn, innerIn;
  KV outside = inRange(outer, outerExtent, &outerIn), zero = KernelBuilder::f32(0);
  if (innerExtent % kLanes == 0) {
    KV cond = inRange(inner, innerExtent, &innerIn);
    KV value = at(outerIn, c_.space.add(innerIn, IndexSpace::lane()));
    return c_.kernel.splat(c_.kernel.select(outside, c_.kernel.select(cond, value, zero), zero), kLanes);
  }
  std::vector<KV> lanes;
  for (int64_t lane = 0; lane < kLanes; ++lane) {
    KV cond = inRange(c_.space.add(inner, IndexSpace::constant(lane)), innerExtent, &innerIn);
    KV value = at(outerIn, innerIn);
    lanes.push_back(c_.kernel.select(outside, c_.kernel.select(cond, value, zero), zero));
  }
  return c_.kernel.splat(c_.kernel.vec(lanes), kLanes);
}

/// The number of an invocation's cell in a part of the stage.
std::optional<Index> CoopmatProduct::cell(const Stage& stage, int64_t part) {
  if (part >= parts(stage)) return {};
  return c_.space.add(lane_, IndexSpace::constant(part * invocations_));
}

/// What this invocation will stage of the step whose first k is k0: the cells of A, then those of B. Cells
/// behind the stage's last repeat its first.
std::vector<KV> CoopmatProduct::fetch(const Index& k0) {
  std::vector<KV> out;
  for (int which = 0; which < 2; ++which) {
    const Stage& stage = stages_[which];
    const int64_t cells = rowsOf(stage) * fours(stage);
    for (int64_t part = 0; auto own = cell(stage, part); ++part) {
      Index at;
      inRange(*own, cells, &at);
      Index row = c_.space.div(at, fours(stage)), four = c_.space.mod(at, fours(stage));
      out.push_back(read(which, k0, row, c_.space.scale(four, kLanes)));
    }
  }
  return out;
}

void CoopmatProduct::write(Stage& stage, const KV& value, const Index& row, const Index& four) {
  std::vector<KV> at{c_.space.materialize(row), c_.space.materialize(four)};
  if (!split_) return c_.kernel.store(value, stage.halves[0], at);
  KV high = c_.kernel.op(Opcode::k_round_f16, {value}, DType::f32);
  KV rest = c_.kernel.op(Opcode::k_sub, {value, high}, DType::f32);
  c_.kernel.store(high, stage.halves[0], at);
  c_.kernel.store(c_.kernel.mul(rest, KernelBuilder::f32(kLowScale)), stage.halves[1], at);
}

void CoopmatProduct::stage(const std::vector<KV>& fetched) {
  size_t next = 0;
  for (Stage& stage : stages_) {
    const int64_t cells = rowsOf(stage) * fours(stage);
    for (int64_t part = 0; auto own = cell(stage, part); ++part, ++next) {
      auto put = [&](const Index& at) {
        write(stage, fetched[next], c_.space.div(at, fours(stage)), c_.space.mod(at, fours(stage)));
      };
      if (c_.space.max(*own) < cells) {
        put(*own);
        continue;
      }
      KV value = c_.space.materialize(*own);
      c_.kernel.guard(c_.kernel.op(Opcode::k_lt, {value, KernelBuilder::u32(cells)}, DType::i1),
                      [&] { put(c_.space.variable(value, cells)); });
    }
  }
}

/// The matrix of an operand at a position along m or n of the stage, and at k.
KV CoopmatProduct::load(int which, int half, const Index& position, int64_t deep) {
  const Stage& stage = stages_[which];
  Index row = stage.alongK ? position : IndexSpace::constant(deep);
  Index four = stage.alongK ? IndexSpace::constant(deep / kLanes) : c_.space.div(position, kLanes);
  // Rows of A lie along m, those of B along k.
  return c_.kernel.coopmatLoad(
      stage.halves[static_cast<size_t>(half)], {c_.space.materialize(row), c_.space.materialize(four)},
      matrixType(which == 0 ? MatrixUse::a : MatrixUse::b), stage.alongK != (which == 0));
}

/// The sums after one step.
std::vector<KV> CoopmatProduct::multiply(std::vector<KV> sums) {
  const int64_t down = warp_[0] / kSide, right = warp_[1] / kSide;
  for (int64_t deep = 0; deep < depth_; deep += kSide) {
    std::vector<KV> parts[2][2];  // of A and B: high, low
    for (int which = 0; which < 2; ++which)
      for (int half = 0; half < (split_ ? 2 : 1); ++half)
        for (int64_t i = 0; i < (which == 0 ? down : right); ++i)
          parts[which][half].push_back(
              load(which, half,
                   c_.space.add(which == 0 ? warpRow_ : warpColumn_, IndexSpace::constant(i * kSide)), deep));
    for (size_t i = 0; i < static_cast<size_t>(down); ++i)
      for (size_t j = 0; j < static_cast<size_t>(right); ++j) {
        const size_t at = i * static_cast<size_t>(right) + j;
        sums[at] = c_.kernel.coopmatMma(parts[0][0][i], parts[1][0][j], sums[at]);
        if (!split_) continue;
        KV& low = sums[tiles() + at];
        low = c_.kernel.coopmatMma(parts[0][0][i], parts[1][1][j], low);
        low = c_.kernel.coopmatMma(parts[0][1][i], parts[1][0][j], low);
      }
  }
  return sums;
}

/// `count` steps from `first` on, carrying sums and what was fetched for the next step.
std::vector<KV> CoopmatProduct::steps(int level, const KV& count, const KV& first, std::vector<KV> carried) {
  c_.kernel.hint("step");
  return c_.kernel.loop(
      level, KernelBuilder::u32(0), count, 1, carried, [&](const KV& turn, const std::vector<KV>& held) {
        std::vector<KV> sums(held.begin(), held.begin() + static_cast<long>(sumsHeld()));
        stage({held.begin() + static_cast<long>(sumsHeld()), held.end()});
        c_.kernel.barrier();
        // The loads of the next step run while this one multiplies; the last repeats itself.
        KV next = c_.kernel.add(c_.kernel.add(first, turn), KernelBuilder::u32(1));
        next = c_.kernel.op(Opcode::k_min, {next, KernelBuilder::u32(count_ - 1)}, DType::u32);
        std::vector<KV> ahead = fetch(c_.space.scale(c_.space.variable(next, count_), depth_));
        sums = multiply(std::move(sums));
        c_.kernel.barrier();
        sums.insert(sums.end(), ahead.begin(), ahead.end());
        return sums;
      });
}

std::vector<KV> CoopmatProduct::sum() {
  auto zeros = [&](size_t count) {
    std::vector<KV> out;
    for (size_t i = 0; i < count; ++i) out.push_back(c_.kernel.coopmatSplat(0, matrixType(MatrixUse::acc)));
    return out;
  };
  std::vector<KV> ahead = fetch(Index{});
  std::vector<KV> carried = zeros(sumsHeld());
  const int64_t chunk = std::max<int64_t>(1, kPromoted / depth_);
  if (!split_ || count_ <= chunk) {
    carried.insert(carried.end(), ahead.begin(), ahead.end());
    carried = steps(c_.kernel.depth(), KernelBuilder::u32(count_), KernelBuilder::u32(0), carried);
    carried.resize(sumsHeld());
    return carried;
  }
  // Matrix units may round sums towards zero; a fresh sum every kPromoted products keeps that small.
  carried.insert(carried.end(), ahead.begin(), ahead.end());
  c_.kernel.hint("chunk");
  carried =
      c_.kernel.loop(c_.kernel.depth(), KernelBuilder::u32(0), (count_ + chunk - 1) / chunk, 1, carried,
                     [&](const KV& turn, const std::vector<KV>& held) {
                       KV first = c_.kernel.mul(turn, KernelBuilder::u32(chunk));
                       KV left = c_.kernel.op(Opcode::k_sub, {KernelBuilder::u32(count_), first}, DType::u32);
                       KV many = c_.kernel.op(Opcode::k_min, {left, KernelBuilder::u32(chunk)}, DType::u32);
                       std::vector<KV> inner = zeros(tiles());  // the low ones are small enough to go on
                       inner.insert(inner.end(), held.begin() + static_cast<long>(tiles()), held.end());
                       inner = steps(c_.kernel.depth(), many, first, inner);
                       for (size_t i = 0; i < tiles(); ++i)
                         inner[i] = c_.kernel.coopmatAdd(held[i], inner[i]);
                       return inner;
                     });
  carried.resize(sumsHeld());
  return carried;
}

/// Four neighbouring sums out of the patch, where a row of each subgroup's matrices lies.
std::vector<KV> CoopmatProduct::drained(const Index& cell) {
  const int64_t perRow = patchColumns_ / kLanes;
  KV row = c_.space.materialize(c_.space.div(cell, perRow));
  Index column = c_.space.scale(c_.space.mod(cell, perRow), kLanes);
  std::vector<KV> lanes;
  for (int64_t lane = 0; lane < kLanes; ++lane)
    lanes.push_back(c_.kernel.loadHere(
        patch_, {row, c_.space.materialize(c_.space.add(column, IndexSpace::constant(lane)))}));
  return lanes;
}

/// Runs body(index) where index < extent, with an index that keeps its alignment.
void CoopmatProduct::inside(const Index& index, int64_t extent,
                            const std::function<void(const Index&)>& body) {
  if (c_.space.max(index) < extent) return body(index);
  KV value = c_.space.materialize(index);
  int64_t align = c_.space.align(index);
  c_.kernel.guard(c_.kernel.op(Opcode::k_lt, {value, KernelBuilder::u32(extent)}, DType::i1),
                  [&] { body(c_.space.variable(value, extent, align)); });
}

/// The epilogue of one cell of the patch: row i of matrices, from matrix column j on.
void CoopmatProduct::results(const Index& cell, int64_t i, int64_t j, const std::vector<KV>& values) {
  const int64_t perRow = patchColumns_ / kLanes, perPatch = kSide * perRow;
  Index subgroup = c_.space.div(cell, perPatch), own = c_.space.mod(cell, perPatch);
  auto place = [&](const Index& origin, const Index& warp, int64_t extent, int64_t matrix, const Index& at) {
    Index within = c_.space.add(IndexSpace::constant(matrix * kSide), at);
    return c_.space.add(origin, c_.space.add(c_.space.scale(warp, extent), within));
  };
  Index row =
      place(stages_[0].origin, c_.space.div(subgroup, across_), warp_[0], i, c_.space.div(own, perRow));
  Index column = place(stages_[1].origin, c_.space.mod(subgroup, across_), warp_[1], j,
                       c_.space.scale(c_.space.mod(own, perRow), kLanes));
  inside(row, p_.m, [&](const Index& rowIn) {
    if (p_.n % kLanes == 0)
      return inside(column, p_.n, [&](const Index& columnIn) {
        epilogue(c_, p_, batch_, rowIn, columnIn, 1, kLanes, true, {c_.kernel.vec(values)});
      });
    for (size_t lane = 0; lane < values.size(); ++lane)
      inside(c_.space.add(column, IndexSpace::constant(static_cast<int64_t>(lane))), p_.n,
             [&](const Index& columnIn) {
               epilogue(c_, p_, batch_, rowIn, columnIn, 1, 1, false, {values[lane]});
             });
  });
}

/// Row by row of matrices through the patch to the results.
void CoopmatProduct::store(const std::vector<KV>& sums) {
  const int64_t down = warp_[0] / kSide, right = warp_[1] / kSide, wide = patchColumns_ / kSide;
  const int64_t parts = subgroups_ * kSide * patchColumns_ / kLanes / invocations_;
  KV row = c_.kernel.mul(subgroup_, KernelBuilder::u32(kSide));
  for (int64_t i = 0; i < down; ++i)
    for (int64_t j = 0; j < right; j += wide) {
      auto fill = [&](size_t first) {
        for (int64_t at = 0; at < wide; ++at)
          c_.kernel.coopmatStore(sums[first + static_cast<size_t>(i * right + j + at)], patch_,
                                 {row, KernelBuilder::u32(at * kSide)});
        c_.kernel.barrier();
      };
      auto cell = [&](const Index& part) { return c_.space.add(lane_, c_.space.scale(part, invocations_)); };
      if (!split_) {
        fill(0);
        c_.kernel.hint("part");
        c_.kernel.loop(c_.kernel.depth(), KernelBuilder::u32(0), parts, 1, {},
                       [&](const KV& part, const std::vector<KV>&) {
                         Index own = cell(c_.space.variable(part, parts));
                         results(own, i, j, drained(own));
                         return std::vector<KV>{};
                       });
        c_.kernel.barrier();
        continue;
      }
      fill(tiles());
      std::vector<std::vector<KV>> low;
      for (int64_t part = 0; part < parts; ++part) low.push_back(drained(cell(IndexSpace::constant(part))));
      c_.kernel.barrier();
      fill(0);
      for (int64_t part = 0; part < parts; ++part) {
        std::vector<KV> values = drained(cell(IndexSpace::constant(part)));
        for (size_t lane = 0; lane < values.size(); ++lane)
          values[lane] = c_.kernel.fma(low[static_cast<size_t>(part)][lane],
                                       KernelBuilder::f32(1 / kLowScale), values[lane]);
        results(cell(IndexSpace::constant(part)), i, j, values);
      }
      c_.kernel.barrier();
    }
}

void CoopmatProduct::group(const Index& group) {
  const int64_t groupsM = (p_.m + tile_[0] - 1) / tile_[0], groupsN = (p_.n + tile_[1] - 1) / tile_[1];
  Index column = c_.space.mod(group, groupsN), rest = c_.space.div(group, groupsN);
  Index row = c_.space.mod(rest, groupsM);
  batch_ = c_.space.div(rest, groupsM);
  lead_ = c_.space.delinear(batch_, p_.lead);
  lane_ = c_.space.variable(c_.kernel.id(Opcode::k_local_id, 0), invocations_);
  subgroup_ = c_.kernel.subgroup(Opcode::k_subgroup_id);
  Index subgroup = c_.space.variable(subgroup_, subgroups_);
  warpRow_ = c_.space.scale(c_.space.div(subgroup, across_), warp_[0]);
  warpColumn_ = c_.space.scale(c_.space.mod(subgroup, across_), warp_[1]);
  makeStage(0, c_.space.scale(row, tile_[0]));
  makeStage(1, c_.space.scale(column, tile_[1]));
  patch_ = c_.kernel.sharedBuffer(
      Type::buffer(DType::f32, 1, {subgroups_ * kSide, patchColumns_ + kPatchPad}, BufMode::shared), "patch");
  store(sum());
}

Result<void> CoopmatProduct::run() {
  TG_CHECK(check());
  const int64_t groupsM = (p_.m + tile_[0] - 1) / tile_[0], groupsN = (p_.n + tile_[1] - 1) / tile_[1];
  c_.launchGroups(p_.batch * groupsM * groupsN, invocations_, [&](const Index& index) { group(index); });
  return {};
}

}  // namespace

/// The large tile where that many workgroups keep the device busy.
std::optional<CoopmatSchedule> chooseCoopmat(const Op& product, const Target& target) {
  if (!suitsCoopmat(product, target)) return {};
  const CoopmatTiling large = largeCoopmat(product);
  if (large.fits(target) &&
      large.groups(productSizes(product)) * large.invocations(target) >= target.parallel / 2)
    return large.schedule();
  if (!kSmallCoopmat.fits(target)) return {};
  return kSmallCoopmat.schedule();
}

CoopmatSchedule arranged(const Op& fused, const Target& target, CoopmatSchedule schedule) {
  const std::unique_ptr<PlainRegion> region = plainRegion(fused);
  const Product p = productIn(*region);
  if (!p.op) return schedule;
  schedule.turned = turnedOperands(fused, *region, p, p.k, true);
  // A patch of the sums as wide as the subgroup's tile makes for fewer copies of the epilogue.
  if (!gives(target, LimitId::sharedBytes, coopmatBytes(p, schedule))) schedule.patch = kSide;
  return schedule;
}

std::vector<Schedule> neighbours(const Op& fused, const Target& target, const CoopmatSchedule&) {
  std::vector<Schedule> out;
  const Op* product = contractionOf(fused);
  if (!product) return out;
  for (const CoopmatTiling& each : {largeCoopmat(*product), kSmallCoopmat})
    if (each.fits(target)) out.push_back(each.schedule());
  if (auto shared = chooseShared(*product, target)) out.push_back(*shared);
  return out;
}

Result<void> lowerKernel(LowerContext& c, const CoopmatSchedule& schedule) {
  TG_TRY(Product p, findProduct(c));
  return CoopmatProduct(c, schedule, p).run();
}

}  // namespace tg
