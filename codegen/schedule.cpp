#include "codegen/schedule.h"

#include <algorithm>
#include <cstdint>

#include "ir/infer.h"

namespace tg {

/// Invocations of a workgroup along x.
static int64_t largestGroup(const Target& target) {
  return std::min(target.maxInvocations, target.maxWorkgroupX);
}

std::optional<RowSpace> rowSpaceOf(const Op& op) {
  using table::Fusion;
  Fusion fusion = op.info().fusion;
  if (fusion != Fusion::reduce && fusion != Fusion::row) return std::nullopt;
  const Shape& shape = op.in(0)->type.shape;
  int rank = shape.rank();
  if (rank == 0) return std::nullopt;
  int first = rank - 1;  // the reduced axes are first..rank-1
  if (op.info().attr("axis")) {
    if (normalAxis(op.intAttr("axis"), rank) != rank - 1) return std::nullopt;
  } else if (op.info().attr("axes")) {
    std::vector<int> axes;
    for (int64_t axis : op.ints("axes")) axes.push_back(normalAxis(axis, rank));
    std::sort(axes.begin(), axes.end());
    if (axes.empty()) return std::nullopt;
    first = axes[0];
    for (size_t i = 0; i < axes.size(); ++i)
      if (axes[i] != first + static_cast<int>(i)) return std::nullopt;
    // Axes of extent 1 behind the reduced ones do not keep them from being last.
    for (int axis = first + static_cast<int>(axes.size()); axis < rank; ++axis)
      if (shape[axis] != 1) return std::nullopt;
  }
  RowSpace space{1, 1};
  for (int axis = 0; axis < rank; ++axis) (axis < first ? space.rows : space.length) *= shape[axis];
  return space;
}

namespace {

/// The largest divisor of n among the candidates, which end with 1.
int64_t divisor(int64_t n, std::initializer_list<int64_t> candidates) {
  for (int64_t candidate : candidates)
    if (n % candidate == 0) return candidate;
  return 1;
}

int64_t roundUpToPowerOfTwo(int64_t n) {
  int64_t power = 1;
  while (power < n) power *= 2;
  return power;
}

Attr scheduleAttr(const char* kind, AttrList members) { return Attr::call(kind, {}, std::move(members)); }

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
    auto blocks = [&](int64_t extent) { return (extent + each.block - 1) / each.block; };
    int64_t covered = batch * blocks(m) * blocks(n) * (each.block / 32) * (each.block / 32);
    if (covered < each.leastBlocks * target.units() || inner < each.leastInner || inner > each.mostInner ||
        each.invocations() > largestGroup(target) || each.bytes() > target.sharedBytes)
      continue;
    return each.schedule();
  }
  return std::nullopt;
}

/// By the matrix units, for products of f16: the large tile where that many workgroups keep the device busy,
/// in f32x3, which holds two sums for each element, half of it. Nothing where most of a matrix would lie
/// outside.
std::optional<Attr> coopmatSchedule(const Op& product, const Target& target) {
  const auto size = productSizes(product);
  const std::string precision = product.word("precision");
  if (precision == "f32" || !target.multipliesHalves() || std::min({size.m, size.n, size.inner}) < 16)
    return {};
  struct Tiling {
    int64_t m, n, warpM, warpN;
  };
  // Within 48 KiB and 32 KiB of shared memory, at a depth of 32.
  const Tiling large = precision == "f16" ? Tiling{128, 128, 64, 32} : Tiling{64, 128, 32, 32},
               small{64, 64, 32, 32};
  auto groups = [&](const Tiling& t) {
    return size.batch * ((size.m + t.m - 1) / t.m) * ((size.n + t.n - 1) / t.n);
  };
  auto invocations = [&](const Tiling& t) { return t.m / t.warpM * (t.n / t.warpN) * target.subgroup; };
  bool useLarge = groups(large) * invocations(large) >= target.parallel / 2 &&
                  invocations(large) <= largestGroup(target) && target.sharedBytes >= 49152;
  const Tiling& t = useLarge ? large : small;
  if (invocations(t) > largestGroup(target) || target.sharedBytes < 32768) return {};
  return scheduleAttr("coopmat",
                      {{"tile", Attr::ints({t.m, t.n, 32})}, {"warp", Attr::ints({t.warpM, t.warpN})}});
}

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

/// A tile for each invocation, as large as registers and the first cache allow while enough invocations
/// remain to fill the device.
Attr registerSchedule(const Op& product, const Target& target) {
  const auto [m, n, inner, batch] = productSizes(product);
  // A loop puts all sums away and fetches them in every round: the longer, the fewer.
  int64_t tileM, tileN, depth = divisor(inner, {8, 4, 7, 6, 5, 3, 2, 1});
  auto invocations = [&] { return batch * (m / tileM) * (n / tileN); };
  int windows = readsWindows(product.in(1)) ? 1 : readsWindows(product.in(0)) ? 0 : -1;
  if (windows >= 0 && axisFactors(product, windows, true).rank() > 1) {
    // Whole extents of the image and the window at a time: what is not the tile's number is then constant,
    // and windows that overlap read an element once. 1000 products are code enough for a loop.
    constexpr int64_t kMostProducts = 2048, kMostDeep = 16, kMostWide = 28;
    const Shape deep = axisFactors(product, windows, true);
    depth = wholeExtents(deep, kMostDeep);
    if (depth % 4 != 0 && wholeExtents(deep, 2 * depth) % 4 == 0) depth *= 2;  // whole vectors of the other
    int64_t wide = wholeExtents(axisFactors(product, windows, false), kMostWide);
    int64_t other = divisor(windows == 1 ? m : n, {8, 7, 6, 5, 4, 3, 2, 1});
    while (other > 1 &&
           (other * wide * depth > kMostProducts || batch * (m * n / (other * wide)) < target.parallel)) {
      int64_t extent = windows == 1 ? m : n;
      while (extent % --other != 0) continue;
    }
    tileM = windows == 1 ? other : wide;
    tileN = windows == 1 ? wide : other;
  } else {
    tileM = divisor(m, {8, 7, 6, 5, 4, 3, 2, 1});
    tileN = divisor(n, {8, 4, 7, 6, 5, 3, 2, 1});
    // Where a cache holds the sums that registers do not, larger tiles fetch less. Rows of both factors that
    // lie far apart, as where a sum runs over the batch, ask for the most. Twice the sums take three times as
    // long to compile on lavapipe, and run a tenth faster.
    struct Large {
      int64_t m, n, depth;
    };
    const bool apart = product.flag("transpose_a") && !product.flag("transpose_b");
    for (const Large& each : {Large{32, 8, 4}, {16, 8, 8}})
      if (target.matmul == "register" && tileM * tileN == 64 && (apart || each.m < 32) && m % each.m == 0 &&
          n % each.n == 0 && inner % each.depth == 0 &&
          batch * (m / each.m) * (n / each.n) >= 2 * target.parallel) {
        tileM = each.m, tileN = each.n, depth = each.depth;
        break;
      }
    if (invocations() < target.parallel && tileN == 8) tileN = 4;
    while (invocations() < target.parallel && tileM % 2 == 0 && tileM > 2) tileM /= 2;
  }
  int64_t workgroup =
      std::clamp<int64_t>(roundUpToPowerOfTwo(n / tileN), 8, std::min<int64_t>(largestGroup(target), 64));
  return scheduleAttr(
      "matmul",
      {{"tile", Attr::ints({tileM, tileN})}, {"depth", Attr::of(depth)}, {"workgroup", Attr::of(workgroup)}});
}

Attr matmulSchedule(const Op& product, const Target& target) {
  if (auto schedule = coopmatSchedule(product, target)) return *schedule;
  const auto size = productSizes(product);
  if (target.matmul == "shared" && size.m >= 16 && size.n >= 16)
    if (std::optional<Attr> shared = sharedSchedule(product, target)) return *shared;
  return registerSchedule(product, target);
}

/// Queries, keys and widths of an attention row; batch is the product of the leading axes.
struct AttentionSizes {
  int64_t queries, keys, width, valueWidth, batch;
  explicit AttentionSizes(const Op& op) {
    const Shape &q = op.in(0)->type.shape, &v = op.in(2)->type.shape;
    int rank = q.rank();
    queries = q[rank - 2], keys = v[rank - 2], width = q.back(), valueWidth = v.back();
    batch = q.elements() / (queries * width);
  }
};

Attr attentionSchedule(const Op& op, const Target& target) {
  AttentionSizes size(op);
  bool forKeys = op.code == Opcode::attention_grad_kv;
  int64_t own = forKeys ? size.keys : size.queries, other = forKeys ? size.queries : size.keys;
  // A row of the other side is read once for all rows of the tile, as in a register-tiled product, where few
  // invocations keep the device busy. Elsewhere neighbours share the read through the cache.
  int64_t tile = 1, wide = size.width + size.valueWidth;
  if (target.matmul == "register") {
    constexpr int64_t kHeld = 256;  // floats of the tile's rows and sums; more spill, and compile slowly
    tile = op.code == Opcode::attention ? divisor(own, {4, 3, 2, 1}) : divisor(own, {2, 1});
    while (tile % 2 == 0 && (size.batch * (own / tile) < target.parallel || tile * wide > kHeld)) tile /= 2;
  }
  int64_t block = wide > 128 ? divisor(other, {2, 1}) : divisor(other, {4, 3, 2, 1});
  int64_t workgroup = std::min<int64_t>(target.matmul == "register" ? 8 : 64, largestGroup(target));
  return scheduleAttr(
      "attention",
      {{"tile", Attr::of(tile)}, {"block", Attr::of(block)}, {"workgroup", Attr::of(workgroup)}});
}

/// Results over leading axes, all of one size.
struct ColumnSpace {
  int64_t results = 0, count = 0;  ///< count elements make a result
  int64_t last = 1;                ///< extent of the results' last axis that is no 1
  int64_t reductions = 0;
};

int64_t lastExtent(const Shape& shape, int from) {
  for (int axis = shape.rank() - 1; axis >= from; --axis)
    if (shape[axis] != 1) return shape[axis];
  return 1;
}

/// What an op reduces over leading or middle axes, or scatters; nothing for other ops.
std::optional<ColumnSpace> columnSpaceOf(const Op& op) {
  ColumnSpace space;
  space.results = op.results.empty() ? 0 : op.result()->type.elements();
  switch (op.code) {
  case Opcode::sum:
  case Opcode::mean:
  case Opcode::max_reduce:
  case Opcode::min_reduce: {
    const Shape& shape = op.in(0)->type.shape;
    int behind = 0;
    for (int64_t axis : op.ints("axes")) behind = std::max(behind, normalAxis(axis, shape.rank()) + 1);
    space.count = space.results ? shape.elements() / space.results : 0;
    space.last = lastExtent(shape, behind);
    return space;
  }
  case Opcode::scatter_add:
    if (op.numOperands() > 2) return std::nullopt;
    space.count = op.in(0)->type.elements();
    space.last = lastExtent(op.result()->type.shape, 1);
    return space;
  default: return std::nullopt;
  }
}

/// The columns of a region of maps and reductions over leading axes; nothing for other regions.
std::optional<ColumnSpace> columnsOf(const Op& fused) {
  using table::Fusion;
  std::optional<ColumnSpace> space;
  int64_t reductions = 0;
  for (const auto& op : fused.regions[0]->ops) {
    Fusion fusion = op->info().fusion;
    if (auto found = columnSpaceOf(*op); found && !rowSpaceOf(*op)) {
      if (space && (space->results != found->results || space->count != found->count)) return std::nullopt;
      space = found;
      ++reductions;
    } else if (fusion != Fusion::map && fusion != Fusion::view && fusion != Fusion::none) {
      return std::nullopt;
    }
  }
  if (space) space->reductions = reductions;
  for (const Operand& operand : fused.regions[0]->terminator()->operands)
    if (space && operand.value->type.elements() != space->results) return std::nullopt;
  return space;
}

constexpr int64_t kColumnGroup = 256;  ///< invocations of a workgroup that reduces columns
constexpr int64_t kFewestSides = 8;  ///< neighbouring floats that a read takes at least: a sector of 32 bytes

/// Null where one invocation for each result is as good.
std::optional<Attr> columnSchedule(const ColumnSpace& space, const Target& target) {
  constexpr int64_t kFewest = 4;  // lanes, and elements for each; fewer cost less than combining
  if (target.reduce != "workgroup") return std::nullopt;
  int64_t vec = space.last % 4 == 0 ? 4 : 1, units = space.results / vec;
  int64_t workgroup = std::min(kColumnGroup, largestGroup(target));
  // Lanes fill the device twice over while each has enough to do.
  int64_t lanes = 1;
  while (lanes < workgroup * vec / kFewestSides && lanes * 2 * kFewest <= space.count &&
         units * lanes < 2 * target.parallel)
    lanes *= 2;
  bool fits = space.reductions * workgroup * vec * 4 <= target.sharedBytes;
  if (lanes < kFewest || !fits) return std::nullopt;
  return scheduleAttr(
      "column", {{"lanes", Attr::of(lanes)}, {"side", Attr::of(workgroup / lanes)}, {"vec", Attr::of(vec)}});
}

Attr rowSchedule(const RowSpace& rows, const Target& target) {
  constexpr int64_t kFewRounds = 4, kTiny = 16;
  int64_t vec = rows.length % 4 == 0 ? 4 : 1, lanes = 1, workgroup;
  if (target.reduce == "workgroup" && (rows.length > kTiny || rows.rows < target.parallel / kTiny)) {
    // A subgroup for a row while its elements fit the registers; else a workgroup, whose lanes take a few.
    int64_t subgroup = reliedSubgroup(target);
    if (rows.length < subgroup * vec) vec = 1;  // vectors would leave lanes idle
    bool narrow = subgroup > 1 && rows.length <= subgroup * vec * kHeldRounds;
    int64_t most = std::min<int64_t>(largestGroup(target), 512);
    int64_t least = std::min<int64_t>(32, roundUpToPowerOfTwo(rows.length));
    int64_t wanted = roundUpToPowerOfTwo((rows.length + vec * kFewRounds - 1) / (vec * kFewRounds));
    lanes = narrow ? subgroup : std::min(std::max(wanted, least), most);
    workgroup = narrow ? std::max(target.workgroup / lanes, int64_t{1}) * lanes : lanes;
  } else {
    if (target.reduce == "workgroup")
      workgroup = target.workgroup;
    else
      workgroup = std::clamp<int64_t>(roundUpToPowerOfTwo(rows.rows / target.parallel * 8),
                                      std::min<int64_t>(8, target.workgroup), target.workgroup);
  }
  return scheduleAttr(
      "row", {{"lanes", Attr::of(lanes)}, {"vec", Attr::of(vec)}, {"workgroup", Attr::of(workgroup)}});
}

}  // namespace

std::vector<Attr> sharedMatmulSchedules() {
  std::vector<Attr> out;
  for (const SharedBlocking& each : kSharedBlockings)
    if (Attr schedule = each.schedule(); std::find(out.begin(), out.end(), schedule) == out.end())
      out.push_back(std::move(schedule));
  return out;
}

int64_t longestColumn(const Target& target, int64_t after) {
  constexpr int64_t kRounds = 32;
  return kRounds * std::min(kColumnGroup, largestGroup(target)) * (after % 4 == 0 ? 4 : 1) / kFewestSides;
}

bool streamsScores(const Op& attention, const Target& target) {
  AttentionSizes size(attention);
  // Stored scores are computed once, streamed ones in each of the three kernels of a training step; storing
  // wins while a cache holds them. On lavapipe a causal step took, streamed against stored, 1.1 times as
  // long with 128 KiB of scores (T 16, D 16) and 256 KiB (T 64, D 64), 0.8 with 512 KiB (T 64, D 16), 0.75
  // with 1 MiB (T 128, D 32), 1.0 with 2 MiB (T 256, D 32); a whole GPT step 0.68 at T 1024, in a fifth of
  // the memory.
  constexpr int64_t kWidest = 256;  // wider rows do not fit the registers of an invocation
  return size.width + size.valueWidth <= kWidest &&
         size.batch * size.queries * size.keys * 4 >= target.streamScores;
}

Attr chooseSchedule(const Op& fused, const Target& target) {
  for (const auto& op : fused.regions[0]->ops) {
    if (op->info().fusion == table::Fusion::attention) return attentionSchedule(*op, target);
    if (op->code == Opcode::custom) return Attr::word("custom");
  }
  const Op* product = nullptr;
  int products = 0;
  std::optional<RowSpace> rows;
  bool mixed = false;
  for (const auto& op : fused.regions[0]->ops) {
    if (op->info().fusion == table::Fusion::contraction) product = op.get(), ++products;
    if (auto space = rowSpaceOf(*op)) {
      mixed = mixed || (rows && !(*rows == *space));
      rows = space;
    } else if (op->info().fusion == table::Fusion::reduce || op->info().fusion == table::Fusion::row) {
      mixed = true;
    }
  }
  const Op* yield = fused.regions[0]->terminator();
  auto everyYield = [&](auto fits) {
    return std::all_of(yield->operands.begin(), yield->operands.end(),
                       [&](const Operand& operand) { return fits(operand.value->type); });
  };
  if (products == 1 && !rows && !mixed &&
      everyYield([&](const Type& type) { return type.elements() == product->result()->type.elements(); }))
    return matmulSchedule(*product, target);
  if (rows && !mixed && everyYield([&](const Type& type) {
        return type.elements() == rows->rows || type.elements() == rows->rows * rows->length;
      }))
    return rowSchedule(*rows, target);
  if (auto columns = columnsOf(fused))
    if (auto schedule = columnSchedule(*columns, target)) return *schedule;
  bool vector = everyYield([](const Type& type) { return type.elements() % 4 == 0; });
  return scheduleAttr("map", {{"vec", Attr::of(vector ? int64_t{4} : int64_t{1})},
                              {"workgroup", Attr::of(target.workgroup)}});
}

}  // namespace tg
