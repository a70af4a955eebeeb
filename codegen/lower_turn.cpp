// SPDX-License-Identifier: Apache-2.0
// turn: a result whose neighbours along the last axis lie far apart in the operand, as in an image that is stored with
// channels last. Reads are coalesced if neighbouring invocations compute neighbouring rows, writes if they store
// neighbouring columns, so that a block of the result passes through shared memory:
//
//   compute   invocation 0 | 1 | 2 | …   the rows 0, 1, 2, … of a column, then of the next column
//   store     invocation 0 | 1 | 2 | …   the columns 0–3, 4–7, … of a row, then of the next row
//
// A row in shared memory has one more element than the block has columns, so that neighbouring rows lie in different banks.

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "codegen/lower_schedules.h"
#include "codegen/schedule.h"
#include "codegen/schedule_parts.h"
#include "ir/access.h"
#include "ir/divide.h"
#include "ir/op_view.h"

namespace tg {

/// The elements of a row of a turned value: the product of the extents behind the axis along which neighbours are neighbours
/// in memory. 0 if a value is not turned: each operand of the region that is longer than its last axis must be read through
/// a transpose that moves its last axis forward, all to the same place, and all other ops must be elementwise or pads.
///
///   %r = tg.transpose %x {perm = [0, 3, 1, 2]} : tensor<32x96x56x56xf32>      rows of 56 x 56
static int64_t turnedRow(const Value& value) {
  if (value.type.rank() == 0) return 0;
  std::vector<const Value*> work{&value};
  std::unordered_set<const Value*> seen(work.begin(), work.end());
  int place = -1;  // of the axis along which memory runs
  while (!work.empty()) {
    const Op* def = work.back()->def;
    work.pop_back();
    if (def && def->code == Opcode::transpose) {
      const std::vector<int64_t> perm = as::transpose(*def).perm();
      const auto last = std::ranges::find(perm, static_cast<int64_t>(perm.size()) - 1);
      const int at = static_cast<int>(last - perm.begin()), rank = static_cast<int>(perm.size());
      if (rank != value.type.rank() || at + 1 >= rank || (place >= 0 && place != at) || def->in(0)->def)
        return 0;
      place = at;
      continue;
    }
    if (!def || (!keepsElements(*def) && def->code != Opcode::pad)) return 0;
    for (const Operand& operand : def->operands) {
      const Value* each = operand.value;
      const bool isSmall = each->type.elements() <= value.type.shape.back();
      if (!isSmall && !(each->def && each->def->code == Opcode::constant) && seen.insert(each).second)
        work.push_back(each);
    }
  }
  if (place < 0) return 0;
  int64_t row = 1;
  for (int axis = place + 1; axis < value.type.rank(); ++axis) row *= value.type.shape[axis];
  return row;
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
  if (target.reduce != "workgroup" || yield.numOperands() != 1 || !isFloat(type.dtype)) return std::nullopt;
  const int64_t row = turnedRow(result);
  // Blocks of 64 columns unless more than an eighth of them would lie behind the row.
  const int64_t columns = (row + 63) / 64 * 64 <= row + row / 8 ? 64 : 32;
  const TurnSchedule turned{.block = {kRows, columns}, .workgroup = kGroup};
  if (row < columns || row % kLanes != 0 || type.elements() < target.parallel ||
      kGroup > largestGroup(target) || !fits(turned, target))
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
  const int64_t turned = turnedRow(*c.yields[0]);
  const int64_t length = turned ? turned : type.rank() == 0 ? 1 : type.shape.back();
  const int64_t all = type.elements() / length;
  if (c.yields.size() != 1 || !isFloat(type.dtype) || columns % kLanes != 0 || length % kLanes != 0 ||
      workgroup % rows != 0 || rows * columns % (kLanes * workgroup) != 0)
    return failAt(c.fused.loc,
                  "schedule {} does not suit a result of {} in rows of {}: it needs one result of floats, "
                  "rows and columns that are multiples of 4, and a workgroup that is a multiple of the "
                  "block's rows and divides a quarter of the block",
                  c.schedule.str(), type.str(), length);
  const int64_t across = divideCeil(length, columns), down = divideCeil(all, rows), stride = columns + 1;
  IndexSpace& space = c.space;
  KernelBuilder& k = c.kernel;
  Value* block =
      k.sharedBuffer(Type::buffer(computeType(type.dtype), 1, {rows * stride}, BufMode::shared), "block");
  c.launchGroups(down * across, workgroup, [&](const Index& group) {
    const Index local = space.variable(k.id(Opcode::k_local_id, 0), workgroup);
    const Index firstRow = space.scale(space.div(group, across), rows),
                firstColumn = space.scale(space.mod(group, across), columns);
    const Index row = space.mod(local, rows), column = space.div(local, rows);
    // Behind the last row or column an invocation computes another element again, which is not stored.
    const Index at = c.emitter.below(space.add(firstRow, row), all).second;
    for (int64_t first = 0; first < columns; first += workgroup / rows) {
      const Index own = space.add(column, IndexSpace::constant(first));
      const Index inside = c.emitter.below(space.add(firstColumn, own), length).second;
      const Index offset = space.add(space.scale(at, length), inside);
      k.store(c.emitter.emitLinear(c.yields[0], offset), block,
              space.materialize(space.add(space.scale(row, stride), own)));
    }
    k.barrier();
    const int64_t quads = columns / kLanes;
    for (int64_t first = 0; first < rows * quads; first += workgroup) {
      const Index unit = space.add(local, IndexSpace::constant(first)), own = space.div(unit, quads),
                  quad = space.scale(space.mod(unit, quads), kLanes);
      c.bounded(space.add(firstRow, own), all, [&](const Index& rowIn) {
        c.bounded(space.add(firstColumn, quad), length, [&](const Index& columnIn) {
          std::vector<KV> four;
          for (int lane = 0; lane < kLanes; ++lane) {
            const Index at = space.add(space.scale(own, stride), space.add(quad, IndexSpace::constant(lane)));
            four.push_back(k.loadHere(block, {space.materialize(at)}));
          }
          const Index offset = space.add(space.scale(rowIn, length), columnIn);
          c.emitter.store(c.firstSlot, space.add(offset, IndexSpace::lane()), k.vec(four));
        });
      });
    }
  });
  return {};
}

}  // namespace tg
