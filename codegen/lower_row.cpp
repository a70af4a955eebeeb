// SPDX-License-Identifier: Apache-2.0
// row: reductions along the last axes. A row is computed by one invocation, a subgroup or a workgroup. Results are
// of three kinds: whole rows, one element a row, and sums over neighbouring rows.

#include <algorithm>
#include <span>
#include <unordered_set>
#include <utility>
#include <vector>

#include "codegen/lower_schedules.h"
#include "codegen/schedule.h"
#include "codegen/schedule_parts.h"
#include "ir/divide.h"
#include "ir/rows.h"

namespace tg {

/// Whether a view moves the last axis of f32 values, so that elements of a row that are neighbours are apart in memory.
static bool movesLastAxis(const OpList& ops) {
  return std::ranges::any_of(ops, [](const Op* op) {
    return op->code == Opcode::transpose && op->result()->type.dtype == DType::f32 &&
           as::transpose(*op).perm().back() + 1 != static_cast<int64_t>(op->result()->type.shape.rank());
  });
}

template <>
std::optional<RowSchedule> choose(const Op& fused, const Target& target) {
  const OpList& ops = fused.regions[0]->ops;
  const RowSpace rows = rowSpaceOf(ops).value_or(RowSpace{1, 1});
  const int64_t each = rowsPerSum(ops, rows);
  if (each && sumsRows(rows, each, target))
    return RowSchedule{.lanes = reliedSubgroup(target), .vec = kLanes, .workgroup = kSumGroup};
  constexpr int64_t kFewRounds = 4, kTiny = 16, kMany = 2;
  int64_t vec = rows.length % 4 == 0 ? 4 : 1, lanes = 1, workgroup;
  if (target.reduce == "workgroup" && (rows.length > kTiny || rows.rows < target.parallel / kTiny)) {
    // A subgroup for each row if its elements fit the registers, else a workgroup with a few elements for each
    // lane.
    int64_t subgroup = reliedSubgroup(target);
    if (rows.length < subgroup * vec) vec = 1;  // vectors would leave lanes idle
    bool narrow = subgroup > 1 && rows.length <= subgroup * vec * kHeldRounds;
    int64_t most = std::min<int64_t>(largestGroup(target), 512);
    int64_t least = std::min<int64_t>(32, roundUpToPowerOfTwo(rows.length));
    int64_t wanted = roundUpToPowerOfTwo(divideCeil(rows.length, vec * kFewRounds));
    lanes = narrow ? subgroup : std::min(std::max(wanted, least), most);
    // A subgroup has little to do for a short row; larger groups save the cost of starting groups.
    const int64_t group =
        vec == 1 ? lightWorkgroup(target, rows.rows * lanes, kMany) : preferredGroup(target);
    workgroup = narrow ? std::max(group / lanes, int64_t{1}) * lanes : lanes;
    // Across an axis that views move, vectors take apart what neighbouring lanes read together: layer norms of 25088
    // rows of 192 take 33 us on an H200 with vectors, 21 without.
    if (narrow && movesLastAxis(ops)) vec = 1;
  } else {
    const int64_t most = preferredGroup(target);
    workgroup = most;
    if (target.reduce != "workgroup")
      workgroup = std::clamp<int64_t>(roundUpToPowerOfTwo(rows.rows / target.parallel * 8),
                                      std::min<int64_t>(8, most), most);
  }
  return RowSchedule{.lanes = lanes, .vec = vec, .workgroup = workgroup};
}

std::vector<Schedule> neighbours(const Op& fused, const Target& target, const RowSchedule& chosen) {
  std::vector<Schedule> out;
  const OpList& ops = fused.regions[0]->ops;
  const RowSpace rows = rowSpaceOf(ops).value_or(RowSpace{1, 1});
  const int64_t lanes = chosen.lanes, subgroup = reliedSubgroup(target), length = rows.length;
  if (const int64_t each = rowsPerSum(ops, rows)) {
    for (int64_t workgroup : {chosen.workgroup / 2, 2 * chosen.workgroup})
      if (workgroup <= largestGroup(target) && each % (workgroup / lanes) == 0)
        out.push_back(RowSchedule{.lanes = lanes, .vec = chosen.vec, .workgroup = workgroup});
    return out;
  }
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
    if (subgroup > 1) shared(subgroup, std::max(preferredGroup(target) / subgroup, int64_t{1}) * subgroup);
  }
  addOtherVec(out, chosen, length % 4 == 0);
  return out;
}

namespace {

/// The number and length of the rows that the reductions behind the schedule's results work on.
RowSpace rowsOf(const LowerContext& c) {
  RowSpace space;
  std::vector<Value*> results;
  for (size_t slot = 0; slot < c.yields.size(); ++slot)
    results.push_back(c.fused.regions[0]->terminator()->in(c.firstSlot + static_cast<int>(slot)));
  const std::unordered_set<const Op*> behind = opsBehind(results);
  for (Op* op : c.fused.regions[0]->ops)
    if (auto found = rowSpaceOf(*op); found && behind.contains(op)) space = *found;
  return space;
}

/// The slots of results that are whole rows, single elements of a row, or sums over neighbouring rows.
struct RowSlots {
  std::vector<size_t> full, single, sums;
  int64_t each = 0;  ///< rows of a sum
};

/// Hoists loads from behind a block's first reduction to before it, if their addresses are known there, so that the
/// reduction hides the latency of the loads. Loaded elements stay in registers until they are used, so at most 64
/// are hoisted. On an H200 the gradient of a layer_norm over 8192 rows of 768, with the residual that is added to
/// it, takes 50 us without this and 44 with it.
void loadBeforeReductions(OpList& ops) {
  constexpr int kRegisters = 64;
  for (Op* op : ops)
    for (const auto& region : op->regions) loadBeforeReductions(region->ops);
  const auto reduction = std::ranges::find_if(ops, [](const Op* op) {
    return op->code == Opcode::k_subgroup_reduce || op->code == Opcode::k_workgroup_reduce;
  });
  if (reduction == ops.end()) return;
  std::unordered_set<const Op*> behind(reduction, ops.end());  // ops that must stay behind the reduction
  std::vector<Op*> movable;
  int held = 0;
  for (auto it = std::next(reduction); it != ops.end(); ++it) {
    const Op* op = *it;
    bool known = op->info().has(table::pure) &&
                 everyUse(*op, [&](const Value* value) { return !behind.contains(value->def); });
    if (known && op->code == Opcode::k_load) {
      held += op->result()->type.lanes;
      known = op->in(0)->type.mode == BufMode::in && held <= kRegisters;
    }
    if (!known) continue;
    behind.erase(op);
    movable.push_back(*it);
  }
  // Of the ops that may move, only loads and the computations of their addresses do.
  std::unordered_set<const Op*> wanted;
  for (auto it = movable.rbegin(); it != movable.rend(); ++it)
    if (const Op* op = *it; op->code == Opcode::k_load || wanted.contains(op)) {
      wanted.insert(op);
      forEachUse(*op, [&](const Value* value) { wanted.insert(value->def); });
    }
  for (Op* op : movable)
    if (wanted.contains(op)) ops.insert(*reduction, ops.take(op));
}

/// Rows that a subgroup or a workgroup shares. If a lane reads its elements in few rounds, the loop over them is
/// unrolled and the elements stay in registers from the reductions to the stores.
///
/// If sums over rows are among the results, one workgroup has all rows of a sum. Its subgroups take one row after
/// another, and each lane keeps partial sums of its columns in registers. At the end the partial sums of the
/// subgroups are added up through shared memory, in the order of the subgroups:
///
///   turn 0    row 0   row 1  …  row 7        subgroup s has row turn·8 + s
///   turn 1    row 8   row 9  …  row 15
///   sums      s0    + s1   + … + s7          one vector after another by each invocation
class SharedRows {
 public:
  SharedRows(LowerContext& c, const RowSchedule& schedule, const RowSpace& rows, const RowSlots& slots)
      : c_(c), rows_(rows), slots_(slots), lanes_(schedule.lanes), vec_(schedule.vec),
        workgroup_(schedule.workgroup), subgroup_(reliedSubgroup(c.target)),
        bySubgroup_(subgroup_ > 1 && lanes_ % subgroup_ == 0),
        ownSubgroup_(bySubgroup_ && lanes_ == subgroup_) {}

  Result<void> lower();

 private:
  int64_t perGroup() const { return workgroup_ / lanes_; }
  int64_t rounds() const { return divideCeil(rows_.length, lanes_ * vec_); }
  KV local() const {
    return ownSubgroup_ ? c_.kernel.subgroup(Opcode::k_subgroup_lane) : c_.kernel.id(Opcode::k_local_id, 0);
  }
  Index columnOf(const Index& round, const Index& lane) const {
    const Index column = c_.space.add(c_.space.scale(round, lanes_ * vec_), c_.space.scale(lane, vec_));
    return vec_ == kLanes ? c_.space.add(column, IndexSpace::lane()) : column;
  }
  void row(const Index& row, std::span<KV> sums);
  void elements(const Index& row, const Index& column, std::span<KV> sums);
  void summed(const Index& group);
  void storeSums(const Index& group, std::span<const KV> sums);

  LowerContext& c_;
  const RowSpace rows_;
  const RowSlots& slots_;
  const int64_t lanes_, vec_, workgroup_, subgroup_;
  const bool bySubgroup_, ownSubgroup_;
};

/// Stores a row's results at a column, and adds its elements to `sums`, which are those of this column.
void SharedRows::elements(const Index& row, const Index& column, std::span<KV> sums) {
  const Index start = c_.space.scale(row, rows_.length);
  if (c_.space.max(column) < rows_.length) {
    const Index offset = c_.space.add(start, column);
    for (size_t i = 0; i < sums.size(); ++i)
      sums[i] = c_.kernel.add(sums[i], c_.emitter.emitLinear(c_.yields[slots_.sums[i]]->def->in(0), offset));
    c_.storeAll(slots_.full, offset);
    return;
  }
  // Past the row's end: uses the index that the reductions used, whose element is cached already. Such an
  // invocation must load nothing more, since a result may be stored in place of an operand.
  auto [inside, at] = c_.emitter.ofRow(column, rows_.length);
  const Index offset = c_.space.add(start, at);
  c_.kernel.guard(inside, [&] { c_.storeAll(slots_.full, offset); });
}

/// Computes a row. `sums` are the partial sums of the lane's rounds, one round after another; empty without sums.
void SharedRows::row(const Index& row, std::span<KV> sums) {
  const KV own = local();
  const Index lane = c_.space.variable(own, lanes_);
  c_.emitter.shareRows({lanes_, row, lane, c_.kernel.depth(), vec_, bySubgroup_ ? subgroup_ : 1});
  const KV first = c_.kernel.op(Opcode::k_eq, {own, KernelBuilder::u32(0)}, DType::i1);
  // All invocations compute the row's single elements; the first stores them.
  for (size_t slot : slots_.single) c_.emitter.emitLinear(c_.yields[slot], row);
  if (!slots_.single.empty())
    c_.kernel.guard(first, [&] {
      for (size_t slot : slots_.single) c_.store(slot, row);
    });
  if (slots_.full.empty() && sums.empty()) return;
  // All invocations must reach the shared reductions, so they are emitted before control flow diverges.
  c_.emitter.pullRowReductions(row, rows_.length, opsBehind(c_.yields));
  if (!sums.empty() || rounds() <= heldRounds(lanes_, bySubgroup_ ? subgroup_ : 1)) {
    const size_t count = slots_.sums.size();
    // A load behind a store waits for it, because the driver's compiler must assume that they alias. So the results
    // of all full rounds are computed before the first store.
    for (int64_t round = 0; round < rounds(); ++round) {
      const Index column = columnOf(IndexSpace::constant(round), lane);
      if (c_.space.max(column) >= rows_.length) continue;
      const Index offset = c_.space.add(c_.space.scale(row, rows_.length), column);
      for (size_t slot : slots_.full) c_.emitter.emitLinear(c_.yields[slot], offset);
    }
    for (int64_t round = 0; round < rounds(); ++round)
      elements(row, columnOf(IndexSpace::constant(round), lane),
               sums.empty() ? sums : sums.subspan(static_cast<size_t>(round) * count, count));
    return;
  }
  // A scalar binding, such as a loss scale, is loaded once before the loop: no store may change it.
  c_.emitter.pullNumbers(opsBehind(c_.yields));
  c_.kernel.hint("round");
  c_.kernel.loop(c_.kernel.depth(), KernelBuilder::u32(0), rounds(), 1, {},
                 [&](const KV& round, const std::vector<KV>&) {
                   elements(row, columnOf(c_.space.variable(round, rounds()), lane), {});
                   return std::vector<KV>{};
                 });
}

/// Computes the rows of a workgroup and the sums over them.
void SharedRows::summed(const Index& group) {
  const Index own = c_.space.variable(c_.kernel.subgroup(Opcode::k_subgroup_id), perGroup());
  const KV none = KernelBuilder::f32(0);
  const std::vector<KV> zeros(slots_.sums.size() * static_cast<size_t>(rounds()),
                              vec_ == kLanes ? c_.kernel.splat(none) : none);
  const int64_t turns = slots_.each / perGroup();
  c_.kernel.hint("turn");
  const std::vector<KV> sums =
      c_.kernel.loop(c_.kernel.depth(), KernelBuilder::u32(0), turns, 1, zeros,
                     [&](const KV& turn, const std::vector<KV>& carried) {
                       const Index before = c_.space.scale(c_.space.variable(turn, turns), perGroup());
                       std::vector<KV> out = carried;
                       row(c_.space.add(c_.space.scale(group, slots_.each), c_.space.add(before, own)), out);
                       return out;
                     });
  storeSums(group, sums);
}

/// Adds up the partial sums of the subgroups through shared memory, one result after another.
void SharedRows::storeSums(const Index& group, std::span<const KV> sums) {
  const int64_t vectors = rows_.length / vec_;
  Value* shared = c_.kernel.sharedBuffer(
      Type::buffer(DType::f32, static_cast<int>(vec_), {perGroup(), vectors}, BufMode::shared), "sums");
  const KV own = c_.kernel.subgroup(Opcode::k_subgroup_id),
           lane = c_.kernel.subgroup(Opcode::k_subgroup_lane);
  const KV invocation = c_.kernel.id(Opcode::k_local_id, 0);
  const size_t count = slots_.sums.size();
  for (size_t i = 0; i < count; ++i) {
    for (int64_t round = 0; round < rounds(); ++round)
      c_.kernel.store(sums[static_cast<size_t>(round) * count + i], shared,
                      {own, c_.kernel.add(lane, KernelBuilder::u32(round * lanes_))});
    c_.kernel.barrier();
    for (int64_t first = 0; first < vectors; first += workgroup_) {
      const Index at = c_.space.add(c_.space.variable(invocation, workgroup_), IndexSpace::constant(first));
      const std::pair<KV, Index> part = c_.emitter.below(at, vectors);
      const Index& vector = part.second;
      c_.kernel.guard(part.first, [&] {
        const KV place = c_.space.materialize(vector);
        KV sum = c_.kernel.loadHere(shared, {KernelBuilder::u32(0), place});
        for (int64_t other = 1; other < perGroup(); ++other)
          sum = c_.kernel.add(sum, c_.kernel.loadHere(shared, {KernelBuilder::u32(other), place}));
        Index offset = c_.space.add(c_.space.scale(group, rows_.length), c_.space.scale(vector, vec_));
        if (vec_ == kLanes) offset = c_.space.add(offset, IndexSpace::lane());
        c_.emitter.store(c_.firstSlot + static_cast<int>(slots_.sums[i]), offset, sum);
      });
    }
    if (i + 1 < count) c_.kernel.barrier();
  }
}

Result<void> SharedRows::lower() {
  if (workgroup_ % lanes_)
    return failAt(c_.fused.loc, "schedule {} has a workgroup that is not a multiple of lanes",
                  c_.schedule.str());
  if (perGroup() > 1 && !ownSubgroup_)
    return failAt(c_.fused.loc,
                  "schedule {} has several rows in a workgroup, which needs lanes equal to the subgroup "
                  "width of target '{}'",
                  c_.schedule.str(), c_.target.name);
  if (!slots_.sums.empty()) {
    if (!ownSubgroup_ || rows_.length % (lanes_ * vec_) || slots_.each % perGroup())
      return failAt(
          c_.fused.loc,
          "schedule {} does not suit sums of {} rows of {}: lanes must be the subgroup width of target '{}', "
          "lanes times vec must divide a row, and the rows of a workgroup must divide those of a sum",
          c_.schedule.str(), slots_.each, rows_.length, c_.target.name);
    c_.launchGroups(rows_.rows / slots_.each, workgroup_, [&](const Index& group) { summed(group); });
    return {};
  }
  c_.launchGroups(divideCeil(rows_.rows, perGroup()), workgroup_, [&](const Index& group) {
    if (perGroup() == 1) return row(group, {});
    const Index own = c_.space.variable(c_.kernel.subgroup(Opcode::k_subgroup_id), perGroup());
    c_.bounded(c_.space.add(c_.space.scale(group, perGroup()), own), rows_.rows,
               [&](const Index& at) { row(at, {}); });
  });
  return {};
}

}  // namespace

Result<void> lowerKernel(LowerContext& c, const RowSchedule& schedule) {
  RowSpace rows = rowsOf(c);
  const int64_t vec = schedule.vec;
  bool fits = rows.rows > 0 && rows.length % vec == 0;
  RowSlots slots;
  for (size_t slot = 0; slot < c.yields.size(); ++slot) {
    const Value* value = c.yields[slot];
    const int64_t each = value->def ? rowsPerSum(*value->def, rows) : 0, count = value->type.elements();
    if (each && (slots.sums.empty() || each == slots.each)) {
      slots.sums.push_back(slot);
      slots.each = each;
    } else if (rows.length > 1 && count == rows.rows * rows.length) {
      slots.full.push_back(slot);
    } else {
      slots.single.push_back(slot);
      fits = fits && count == rows.rows;
    }
  }
  if (!fits)
    return failAt(c.fused.loc,
                  "schedule {} needs a vec that divides the {} elements of a row, and results with one "
                  "element for each row or whole rows",
                  c.schedule.str(), rows.length);
  if (slots.each && schedule.lanes == 1)
    return failAt(
        c.fused.loc,
        "schedule {} has one invocation for each row; sums over rows need lanes equal to the subgroup width",
        c.schedule.str());

  // The single elements first, then one pass over the row that stores all whole-row results.
  auto statistics = [&](const Index& row) {
    for (size_t slot : slots.single) c.store(slot, row);
  };
  auto elements = [&](const Index& row, const Index& column) {
    Index offset = c.space.add(c.space.scale(row, rows.length), column);
    c.storeAll(slots.full, offset);
  };
  if (schedule.lanes == 1) {
    c.launch(rows.rows, schedule.workgroup, [&](const Index& row) {
      statistics(row);
      if (slots.full.empty()) return;
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
  TG_CHECK(SharedRows(c, schedule, rows, slots).lower());
  loadBeforeReductions(c.out.kernel->body.ops);
  return {};
}

}  // namespace tg
