// SPDX-License-Identifier: Apache-2.0
// row: reductions along the last axes, a row by one invocation, a subgroup or a workgroup.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <unordered_set>

#include "codegen/lower_schedules.h"
#include "codegen/schedule.h"
#include "codegen/schedule_parts.h"
#include "ir/unread.h"

namespace tg {

template <>
std::optional<RowSchedule> choose(const Op& fused, const Target& target) {
  RowSpace rows{1, 1};  // all of the region's are equal
  for (const Op* op : fused.regions[0]->ops)
    if (auto space = rowSpaceOf(*op)) rows = *space;
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
    // A subgroup for a short row has little to do for each workgroup that is started.
    const int64_t group = vec == 1 ? lightWorkgroup(target, rows.rows * lanes) : target.workgroup;
    workgroup = narrow ? std::max(group / lanes, int64_t{1}) * lanes : lanes;
  } else {
    const int64_t most = std::min(target.workgroup, largestGroup(target));
    workgroup = most;
    if (target.reduce != "workgroup")
      workgroup = std::clamp<int64_t>(roundUpToPowerOfTwo(rows.rows / target.parallel * 8),
                                      std::min<int64_t>(8, most), most);
  }
  return RowSchedule{.lanes = lanes, .vec = vec, .workgroup = workgroup};
}

std::vector<Schedule> neighbours(const Op& fused, const Target& target, const RowSchedule& chosen) {
  std::vector<Schedule> out;
  int64_t length = 1;
  for (Op* op : fused.regions[0]->ops)
    if (auto rows = rowSpaceOf(*op)) length = rows->length;
  const int64_t lanes = chosen.lanes, subgroup = reliedSubgroup(target);
  auto shared = [&](int64_t wanted, int64_t workgroup) {
    if (wanted >= 2 && workgroup <= largestGroup(target))
      out.push_back(RowSchedule{.lanes = wanted, .vec = chosen.vec, .workgroup = workgroup});
  };
  if (lanes == 1) {
    addWorkgroups(out, chosen, target, 8);
  } else if (lanes == subgroup) {
    addWorkgroups(out, chosen, target, lanes);
    shared(4 * lanes, 4 * lanes);
  } else {
    shared(2 * lanes, 2 * lanes);
    shared(lanes / 2, lanes / 2);
    if (subgroup > 1) shared(subgroup, std::max(target.workgroup / subgroup, int64_t{1}) * subgroup);
  }
  addOtherVec(out, chosen, length % 4 == 0);
  return out;
}

/// Rows and row length a schedule's region works on: the largest result is rows × length, or rows.
static RowSpace rowsOf(const LowerContext& c) {
  RowSpace space;
  std::vector<Value*> results;
  for (size_t slot = 0; slot < c.yields.size(); ++slot)
    results.push_back(c.fused.regions[0]->terminator()->in(c.firstSlot + static_cast<int>(slot)));
  const std::unordered_set<const Op*> behind = opsBehind(results);
  for (Op* op : c.fused.regions[0]->ops)
    if (auto found = rowSpaceOf(*op); found && behind.contains(op)) space = *found;
  return space;
}

/// Rows that a subgroup or a workgroup share. What a lane reads in a few rounds it keeps for later passes.
static Result<void> lowerSharedRow(LowerContext& c, const RowSchedule& schedule, const RowSpace& rows,
                                   const std::function<bool(size_t)>& isFull) {
  const int64_t lanes = schedule.lanes, vec = schedule.vec, perGroup = schedule.workgroup / lanes;
  int64_t subgroup = reliedSubgroup(c.target);
  bool bySubgroup = subgroup > 1 && lanes % subgroup == 0, ownSubgroup = bySubgroup && lanes == subgroup;
  if (schedule.workgroup % lanes)
    return failAt(c.fused.loc,
                  fmt::format("schedule {} has a workgroup that its lanes do not divide", c.schedule.str()));
  if (perGroup > 1 && !ownSubgroup)
    return failAt(c.fused.loc,
                  fmt::format("schedule {} puts several rows into a workgroup, and lanes is not the "
                              "subgroup width of target {}",
                              c.schedule.str(), c.target.name));
  auto share = [&](const Index& row) {
    KV local = ownSubgroup ? c.kernel.subgroup(Opcode::k_subgroup_lane) : c.kernel.id(Opcode::k_local_id, 0);
    Index lane = c.space.variable(local, lanes);
    c.emitter.shareRows({lanes, row, lane, c.kernel.depth(), vec, bySubgroup ? subgroup : 1});
    KV first = c.kernel.op(Opcode::k_eq, {local, KernelBuilder::u32(0)}, DType::i1);
    // Statistics are computed by all invocations, then stored by the first.
    std::vector<size_t> full, single;
    for (size_t slot = 0; slot < c.yields.size(); ++slot) (isFull(slot) ? full : single).push_back(slot);
    for (size_t slot : single) c.emitter.emitLinear(c.yields[slot], row);
    if (!single.empty())
      c.kernel.guard(first, [&] {
        for (size_t slot : single) c.store(slot, row);
      });
    if (full.empty()) return;
    // Shared reductions must be met by all invocations before control flow diverges.
    c.emitter.pullRowReductions(row, rows.length, opsBehind(c.yields));
    auto elements = [&](const Index& round) {
      Index column = c.space.add(c.space.scale(round, lanes * vec), c.space.scale(lane, vec));
      if (vec == kLanes) column = c.space.add(column, IndexSpace::lane());
      Index start = c.space.scale(row, rows.length);
      if (c.space.max(column) < rows.length) {
        for (size_t slot : full) c.store(slot, c.space.add(start, column));
        return;
      }
      // At an index as the reductions', whose values are known. Nobody reads more who has nothing to store: a
      // result may stand where an operand does.
      auto [inside, at] = c.emitter.below(column, rows.length);
      Index offset = c.space.add(start, at);
      c.kernel.guard(inside, [&] {
        for (size_t slot : full) c.store(slot, offset);
      });
    };
    int64_t rounds = (rows.length + lanes * vec - 1) / (lanes * vec);
    if (rounds <= heldRounds(lanes, bySubgroup ? subgroup : 1)) {
      for (int64_t round = 0; round < rounds; ++round) elements(IndexSpace::constant(round));
      return;
    }
    // A number of the whole tensor, as a loss scale, is read once: no store between may have changed it.
    c.emitter.pullNumbers(opsBehind(c.yields));
    c.kernel.hint("round");
    c.kernel.loop(c.kernel.depth(), KernelBuilder::u32(0), rounds, 1, {},
                  [&](const KV& round, const std::vector<KV>&) {
                    elements(c.space.variable(round, rounds));
                    return std::vector<KV>{};
                  });
  };
  c.launchGroups((rows.rows + perGroup - 1) / perGroup, schedule.workgroup, [&](const Index& group) {
    if (perGroup == 1) return share(group);
    Index own = c.space.variable(c.kernel.subgroup(Opcode::k_subgroup_id), perGroup);
    c.bounded(c.space.add(c.space.scale(group, perGroup), own), rows.rows, share);
  });
  return {};
}

Result<void> lowerKernel(LowerContext& c, const RowSchedule& schedule) {
  RowSpace rows = rowsOf(c);
  const int64_t vec = schedule.vec;
  bool fits = rows.rows > 0 && rows.length % vec == 0;
  for (const Value* value : c.yields) {
    const int64_t count = value->type.elements();
    fits = fits && (count == rows.rows || count == rows.rows * rows.length);
  }
  if (!fits)
    return failAt(c.fused.loc,
                  fmt::format("schedule {} needs rows of {} that vec, 1 or 4, divides, and results of "
                              "one element a row or of whole rows",
                              c.schedule.str(), rows.length));
  auto isFull = [&](size_t slot) {
    return rows.length > 1 && c.yields[slot]->type.elements() == rows.rows * rows.length;
  };
  bool anyFull = false;
  for (size_t slot = 0; slot < c.yields.size(); ++slot) anyFull = anyFull || isFull(slot);

  // Row values first, then one pass over the row for every full result.
  auto statistics = [&](const Index& row) {
    for (size_t slot = 0; slot < c.yields.size(); ++slot)
      if (!isFull(slot)) c.store(slot, row);
  };
  auto elements = [&](const Index& row, const Index& column) {
    Index offset = c.space.add(c.space.scale(row, rows.length), column);
    for (size_t slot = 0; slot < c.yields.size(); ++slot)
      if (isFull(slot)) c.store(slot, offset);
  };
  if (schedule.lanes == 1) {
    c.launch(rows.rows, schedule.workgroup, [&](const Index& row) {
      statistics(row);
      if (!anyFull) return;
      c.kernel.hint("j");
      c.kernel.loop(c.kernel.depth(), KernelBuilder::u32(0), rows.length / vec, 1, {},
                    [&](const KV& j, const std::vector<KV>&) {
                      Index column = c.space.scale(c.space.variable(j, rows.length / vec), vec);
                      elements(row, vec == kLanes ? c.space.add(column, IndexSpace::lane()) : column);
                      return std::vector<KV>{};
                    });
    });
    return {};
  }
  return lowerSharedRow(c, schedule, rows, isFull);
}

}  // namespace tg
