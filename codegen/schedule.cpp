// SPDX-License-Identifier: Apache-2.0
#include "codegen/schedule.h"

#include <algorithm>
#include <cstdint>

#include "codegen/schedule_parts.h"
#include "ir/infer.h"

namespace tg {

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
  for (Op* op : fused.regions[0]->ops) {
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

static Attr fastestSchedule(const Op& fused, const Target& target) {
  for (Op* op : fused.regions[0]->ops) {
    if (op->info().fusion == table::Fusion::attention) return attentionSchedule(*op, target);
    if (op->code == Opcode::custom) return Attr::word("custom");
  }
  const Op* product = nullptr;
  int products = 0;
  std::optional<RowSpace> rows;
  bool mixed = false;
  for (Op* op : fused.regions[0]->ops) {
    if (op->info().fusion == table::Fusion::contraction) product = op, ++products;
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

Attr chooseSchedule(const Op& fused, const Target& target) {
  return withinBudget(fused, target, fastestSchedule(fused, target));
}

}  // namespace tg
