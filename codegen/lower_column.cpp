// SPDX-License-Identifier: Apache-2.0
// column: reductions over leading axes, and scatters. `lanes` invocations share each result: each takes every
// lanes-th of the reduced elements, then they combine. `side` neighbouring results (or vectors of four) are
// computed by one workgroup, so that each read is coalesced:
//
//   workgroup   lane 0   | side 0 | side 1 | …      reads elements 0, lanes, 2·lanes, … of its column
//               lane 1   | side 0 | side 1 | …      reads elements 1, lanes + 1, …

#include <algorithm>
#include <cstdint>
#include <optional>

#include "codegen/lower_schedules.h"
#include "codegen/schedule.h"
#include "codegen/schedule_parts.h"
#include "ir/divide.h"
#include "ir/infer.h"
#include "ir/op_view.h"

namespace tg {
namespace {

/// What the columns of a region have in common.
struct ColumnSpace {
  int64_t results = 0, count = 0;  ///< number of results; elements that make a result
  int64_t last = 1;                ///< extent of the last axis of the results that is not 1
  int64_t reductions = 1;          ///< values of each invocation that are combined in shared memory
};

/// The last extent other than 1 from axis `from` on; 1 if there is none.
int64_t lastExtent(const Shape& shape, int from) {
  for (int axis = shape.rank() - 1; axis >= from; --axis)
    if (shape[axis] != 1) return shape[axis];
  return 1;
}

/// The columns of an op that reduces over leading or middle axes, or scatters; nothing for other ops.
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
    for (int64_t axis : as::sum(op).axes()) behind = std::max(behind, normalAxis(axis, shape.rank()) + 1);
    space.count = space.results ? shape.elements() / space.results : 0;
    space.last = lastExtent(shape, behind);
    return space;
  }
  case Opcode::argmax:
  case Opcode::argmin:  // `last` stays 1, so that vec is 1: an argmax takes the lanes of a vector one by one
    space.count = op.in(0)->type.elements() / space.results;
    space.reductions = 2;
    return space;
  case Opcode::scatter_add:
    if (op.numOperands() > 2 || as::scatter_add(op).pieces() > 1) return std::nullopt;
    space.count = op.in(0)->type.elements();
    space.last = lastExtent(op.result()->type.shape, 1);
    return space;
  default: return std::nullopt;
  }
}

/// The columns of a region of maps, views, constants and column reductions of one size; nothing for other regions.
std::optional<ColumnSpace> columnsOf(const Op& fused) {
  using table::Fusion;
  std::optional<ColumnSpace> space;
  int64_t reductions = 0, last = INT64_MAX;
  for (Op* op : fused.regions[0]->ops) {
    Fusion fusion = op->info().fusion;
    if (auto found = columnSpaceOf(*op); found && !rowSpaceOf(*op)) {
      if (space && (space->results != found->results || space->count != found->count)) return std::nullopt;
      space = found;
      reductions += found->reductions;
      last = std::min(last, found->last);
    } else if (fusion != Fusion::map && fusion != Fusion::view && fusion != Fusion::leaf &&
               fusion != Fusion::none) {
      return std::nullopt;
    }
  }
  if (space) space->reductions = reductions, space->last = last;
  for (const Operand& operand : fused.regions[0]->terminator()->operands)
    if (space && operand.value->type.elements() != space->results) return std::nullopt;
  return space;
}

constexpr int64_t kColumnGroup = 256;  ///< invocations of a workgroup that reduces columns
constexpr int64_t kFewestSides = 8;  ///< neighbouring floats that a read takes at least: a sector of 32 bytes

/// Nothing where one invocation for each result is as fast.
std::optional<ColumnSchedule> columnSchedule(const ColumnSpace& space, const Target& target) {
  constexpr int64_t kFewest = 4;  // of lanes, and of elements for each; fewer are not worth combining
  if (target.reduce != "workgroup") return std::nullopt;
  int64_t vec = space.last % 4 == 0 ? 4 : 1, units = space.results / vec;
  int64_t workgroup = std::min(kColumnGroup, largestGroup(target));
  // Adds lanes until they fill the device twice over, as long as each has enough elements.
  int64_t lanes = 1;
  while (lanes < workgroup * vec / kFewestSides && lanes * 2 * kFewest <= space.count &&
         units * lanes < 2 * target.parallel)
    lanes *= 2;
  bool fits = gives(target, LimitId::sharedBytes, space.reductions * workgroup * vec * 4);
  if (lanes < kFewest || !fits) return std::nullopt;
  return ColumnSchedule{.lanes = lanes, .side = workgroup / lanes, .vec = vec};
}

}  // namespace

template <>
std::optional<ColumnSchedule> choose(const Op& fused, const Target& target) {
  const std::optional<ColumnSpace> columns = columnsOf(fused);
  return columns ? columnSchedule(*columns, target) : std::nullopt;
}

int64_t longestColumn(const Target& target, int64_t after) {
  constexpr int64_t kRounds = 32;
  return kRounds * std::min(kColumnGroup, largestGroup(target)) * (after % 4 == 0 ? 4 : 1) / kFewestSides;
}

/// The same number of invocations, divided differently between results and their elements.
std::vector<Schedule> neighbours(const Op&, const Target&, const ColumnSchedule& chosen) {
  std::vector<Schedule> out;
  const int64_t lanes = chosen.lanes, side = chosen.side, vec = chosen.vec;
  if (side % 2 == 0) out.push_back(ColumnSchedule{2 * lanes, side / 2, vec});
  if (lanes > 2) out.push_back(ColumnSchedule{lanes / 2, 2 * side, vec});
  if (lanes > 4) out.push_back(ColumnSchedule{lanes / 4, 4 * side, vec});
  addOtherVec(out, chosen, false);
  return out;
}

/// Each invocation reduces its elements, the lanes of a result combine, the first lane stores the total.
Result<void> lowerKernel(LowerContext& c, const ColumnSchedule& schedule) {
  const int64_t lanes = schedule.lanes, side = schedule.side, vec = schedule.vec;
  int64_t results = c.yields[0]->type.elements();
  bool follows = true;
  for (const Value* value : c.yields)
    follows = follows && value->type.elements() == results && results % vec == 0;
  if (!follows)
    return failAt(c.fused.loc, "schedule {} needs results of one size that vec divides", c.schedule.str());
  int64_t units = results / vec, groups = divideCeil(units, side);
  c.launchGroups(groups, lanes * side, [&](const Index& group) {
    Index local = c.space.variable(c.kernel.id(Opcode::k_local_id, 0), lanes * side);
    Index lane = c.space.div(local, side), own = c.space.mod(local, side);
    Index unit = c.space.add(c.space.scale(group, side), own);
    KV stores = c.kernel.op(Opcode::k_eq, {c.space.materialize(lane), KernelBuilder::u32(0)}, DType::i1);
    if (hasSurplus(schedule, results)) {  // those repeat the first result, to reach the barriers
      auto [inside, at] = c.emitter.below(unit, units);
      stores = c.kernel.op(Opcode::k_and, {stores, inside}, DType::i1);
      unit = at;
    }
    Index result = c.space.scale(unit, vec);
    if (vec == kLanes) result = c.space.add(result, IndexSpace::lane());
    c.emitter.shareRows({lanes, result, lane, c.kernel.depth(), 1, 1, side});
    for (const Value* value : c.yields) c.emitter.emitLinear(value, result);
    // If the result is stored in place of an operand, the first lane waits until the other lanes have read that.
    if (c.isInPlace()) c.kernel.barrier();
    c.kernel.guard(stores, [&] {
      for (size_t slot = 0; slot < c.yields.size(); ++slot) c.store(slot, result);
    });
  });
  return {};
}

}  // namespace tg
