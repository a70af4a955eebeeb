// SPDX-License-Identifier: Apache-2.0
// turn: a result whose neighbours along the last axis lie far apart in the operand, as in an image that is stored with
// channels last. Reads are coalesced if neighbouring invocations compute neighbouring rows, writes if they store
// neighbouring columns, so that a block of the result passes through shared memory:
//
//   compute   invocation 0 | 1 | 2 | …   the rows 0, 1, 2, … of a column, then of the next column
//   store     invocation 0 | 1 | 2 | …   the columns 0–3, 4–7, … of a row, then of the next row
//
// A row in shared memory has one more element than the block has columns, so that neighbouring rows lie in different banks.
#include <fmt/format.h>

#include <unordered_set>
#include <vector>

#include "codegen/lower_schedules.h"
#include "codegen/schedule.h"
#include "codegen/schedule_parts.h"
#include "ir/access.h"
#include "ir/op_view.h"

namespace tg {

/// Whether neighbours along the last axis but one of a value are neighbours in memory: each operand of the region that is
/// longer than a row is read through a transpose that moves its last axis there, and all other ops are elementwise or pads.
static bool isTurned(const Value& value) {
  if (value.type.rank() == 0) return false;
  std::vector<const Value*> work{&value};
  std::unordered_set<const Value*> seen(work.begin(), work.end());
  bool turns = false;
  while (!work.empty()) {
    const Op* def = work.back()->def;
    work.pop_back();
    if (def && def->code == Opcode::transpose) {
      const std::vector<int64_t> perm = as::transpose(*def).perm();
      const size_t rank = perm.size();
      turns = rank > 1 && perm[rank - 2] == static_cast<int64_t>(rank) - 1 && !def->in(0)->def;
      if (!turns) return false;
      continue;
    }
    if (!def || (!keepsElements(*def) && def->code != Opcode::pad)) return false;
    for (const Operand& operand : def->operands) {
      const Value* each = operand.value;
      const bool isSmall = each->type.elements() <= value.type.shape.back();
      if (!isSmall && !(each->def && each->def->code == Opcode::constant) && seen.insert(each).second)
        work.push_back(each);
    }
  }
  return turns;
}

/// Whether a block of floats fits in shared memory.
static bool fits(const TurnSchedule& schedule, const Target& target) {
  return gives(target, LimitId::sharedBytes, schedule.block[0] * (schedule.block[1] + 1) * 4);
}

/// On an H100 32x64x56x56 numbers of bf16 take 9.3 us to channels last with padding, 18 with an invocation for each four
/// results; 32x256x14x14 take 4.6 and 14, 4096x4096 of f32 48 and 257.
template <>
std::optional<TurnSchedule> choose(const Op& fused, const Target& target) {
  constexpr int64_t kRows = 32, kGroup = 256;
  const Op& yield = *fused.regions[0]->terminator();
  const Value& result = *yield.in(0);
  const Type& type = result.type;
  if (target.reduce != "workgroup" || yield.numOperands() != 1 || !isFloat(type.dtype) || !isTurned(result))
    return std::nullopt;
  const int64_t columns = divisor(type.shape.back(), {64, 32, 1});
  const TurnSchedule turned{.block = {kRows, columns}, .workgroup = kGroup};
  if (columns == 1 || type.elements() < target.parallel || kGroup > largestGroup(target) ||
      !fits(turned, target))
    return std::nullopt;
  return turned;
}

std::vector<Schedule> neighbours(const Op& fused, const Target& target, const TurnSchedule& chosen) {
  std::vector<Schedule> out{*choose<MapSchedule>(fused, target)};
  TurnSchedule wide = chosen;
  wide.block[0] *= 2;
  if (fits(wide, target)) out.push_back(wide);
  return out;
}

Result<void> lowerKernel(LowerContext& c, const TurnSchedule& schedule) {
  const int64_t rows = schedule.block[0], columns = schedule.block[1], workgroup = schedule.workgroup;
  const Type& type = c.yields[0]->type;
  const int64_t length = type.rank() == 0 ? 1 : type.shape.back(), all = type.elements() / length;
  if (c.yields.size() != 1 || !isFloat(type.dtype) || columns % kLanes != 0 || length % columns != 0 ||
      workgroup % rows != 0 || rows * columns % (kLanes * workgroup) != 0)
    return failAt(c.fused.loc,
                  fmt::format("schedule {} does not suit a result of {}: it needs one result of "
                              "floats, columns that are a multiple of 4 and divide the last axis, and "
                              "a workgroup that is a multiple of the rows and divides a quarter of "
                              "the block",
                              c.schedule.str(), type.str()));
  const int64_t across = length / columns, down = (all + rows - 1) / rows, stride = columns + 1;
  IndexSpace& space = c.space;
  KernelBuilder& k = c.kernel;
  Value* block =
      k.sharedBuffer(Type::buffer(computeType(type.dtype), 1, {rows * stride}, BufMode::shared), "block");
  c.launchGroups(down * across, workgroup, [&](const Index& group) {
    const Index local = space.variable(k.id(Opcode::k_local_id, 0), workgroup);
    const Index firstRow = space.scale(space.div(group, across), rows),
                firstColumn = space.scale(space.mod(group, across), columns);
    const Index row = space.mod(local, rows), column = space.div(local, rows);
    // Behind the last row an invocation computes that row again, which is not stored.
    const Index at = c.emitter.below(space.add(firstRow, row), all).second;
    for (int64_t first = 0; first < columns; first += workgroup / rows) {
      const Index own = space.add(column, IndexSpace::constant(first));
      const Index offset = space.add(space.scale(at, length), space.add(firstColumn, own));
      k.store(c.emitter.emitLinear(c.yields[0], offset), block,
              space.materialize(space.add(space.scale(row, stride), own)));
    }
    k.barrier();
    const int64_t quads = columns / kLanes;
    for (int64_t first = 0; first < rows * quads; first += workgroup) {
      const Index unit = space.add(local, IndexSpace::constant(first)), own = space.div(unit, quads),
                  quad = space.scale(space.mod(unit, quads), kLanes);
      c.bounded(space.add(firstRow, own), all, [&](const Index& inside) {
        std::vector<KV> four;
        for (int lane = 0; lane < kLanes; ++lane)
          four.push_back(
              k.loadHere(block, {space.materialize(space.add(space.scale(own, stride),
                                                             space.add(quad, IndexSpace::constant(lane))))}));
        const Index offset = space.add(space.scale(inside, length), space.add(firstColumn, quad));
        c.emitter.store(c.firstSlot, space.add(offset, IndexSpace::lane()), k.vec(four));
      });
    }
  });
  return {};
}

}  // namespace tg
