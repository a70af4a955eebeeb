// SPDX-License-Identifier: Apache-2.0
// Orders the kernels of a function. On a device that runs several kernels at once, a barrier costs as much as a small
// kernel: all kernels before it end before the next begins. So kernels that do not depend on each other are put into one
// interval between barriers, and values that are alive in the same interval share no bytes.
#include <algorithm>
#include <utility>

#include "passes/plan/function_plan.h"

namespace tg::plan {
namespace {

/// How much memory an order with fewer barriers may cost: the peak of live bytes may grow by one part in kLiveGrowth, the
/// arena by one in kArenaGrowth, each at most by the second constants, or by the slack if that is more. All are chosen.
constexpr int64_t kLiveGrowth = 50, kArenaGrowth = 20;
constexpr int64_t kMostLiveGrowth = 32 << 20, kMostArenaGrowth = 48 << 20;

}  // namespace

int FunctionPlan::intervalStart(int op) const {
  if (intervals_.empty()) return op;
  return *(std::ranges::upper_bound(intervals_, op) - 1);
}

int FunctionPlan::intervalEnd(int op) const {
  if (intervals_.empty()) return op;
  auto next = std::ranges::upper_bound(intervals_, op);
  return (next == intervals_.end() ? static_cast<int>(ops_.size()) : *next) - 1;
}

/// The last op except `op` that writes or reads a unit; -1 if there is none.
int FunctionPlan::lastOther(const Unit& unit, int op) const {
  int last = -1;
  for (const Value* member : unit.members)
    eachAccess(member, [&](int at) { last = std::max(last, at == op ? -1 : at); });
  return last;
}

/// Extends live ranges to whole intervals. A fill goes into the interval before the first write of the member whose padding
/// it zeroes, so that it needs no barrier of its own.
void FunctionPlan::setIntervals() {
  for (Unit& unit : units_) {
    unit.from = intervalStart(unit.first);
    unit.to = intervalEnd(unit.last);
    for (Unit::Fill& fill : unit.fills) {
      fill.before = intervalStart(unit.inParts() ? lifeOf(*unit.members[fill.member]).first : unit.first);
      if (!intervals_.empty() && fill.before > 0) fill.before = intervalStart(fill.before - 1);
    }
  }
}

/// For each list of a task, the op for which a number was last added to it: each is added once.
struct FunctionPlan::Added {
  std::vector<int> after, reads, writes;
};

/// Adds what an op waits for: the ops that compute its operands, and the readers of bytes that it overwrites.
void FunctionPlan::addDependences(Task& task, int opIndex, const std::vector<int>& taskAt,
                                  Added& added) const {
  const Op& op = *ops_[opIndex];
  const auto add = [&](std::vector<int>& list, std::vector<int>& last, int number) {
    if (std::exchange(last[static_cast<size_t>(number)], opIndex) != opIndex) list.push_back(number);
  };
  auto afterReaders = [&](const Value& value) {
    for (const Reading& use : factsOf(value).readings)
      if (use.op < opIndex && taskAt[use.op] >= 0) add(task.after, added.after, taskAt[use.op]);
  };
  forEachUse(op, [&](Value* value) {
    if (unitOf(*value)) add(task.reads, added.reads, blockOf(*value));
    if (value->def && isTurn(*value->def)) add(task.after, added.after, taskAt[factsOf(*value).defined]);
    if (op.code == Opcode::all_reduce) afterReaders(*value);
  });
  if (auto held = held_.find(opIndex); held != held_.end())
    for (const Value* value : held->second)
      if (unitOf(*value)) add(task.reads, added.reads, blockOf(*value));
  for (const auto& result : op.results) {
    add(task.writes, added.writes, blockOf(*result));
    const Op* update = factsOf(*result).update;
    if (auto reads = update ? reads_.find(update->operands[0].text) : reads_.end(); reads != reads_.end())
      for (const Value* read : reads->second) afterReaders(*read);
  }
}

/// Adds the blocks whose bytes a region's results may take, in place.
void FunctionPlan::addTakeOvers(Task& task, int opIndex) const {
  const Op& op = *ops_[opIndex];
  std::vector<ResultSlot> slots = resultSlots(op);
  for (int index = 0; index < std::ssize(slots); ++index) {
    const Unit& unit = *unitOf(*op.result(slots[index].first));
    int binding = mayTakeOver(unit, op, slots[index]) ? 0 : op.numOperands();
    while (binding < op.numOperands() && !mayShare(opIndex, binding, index, unit)) ++binding;
    if (binding == op.numOperands()) continue;
    const Unit& read = *unitOf(*bindingSources(op, binding)[0]);
    // Members at other offsets would take over parts of several members.
    if (unit.inParts() && read.offsets != unit.offsets) continue;
    for (int block = 0; block < unit.blocks(); ++block)
      task.takeOver.emplace_back(unit.firstBlock + block, read.firstBlock + block);
  }
}

/// One task for each kernel and collective, in text order.
std::vector<Task> FunctionPlan::makeTasks() const {
  std::vector<Task> tasks;
  std::vector<int> taskAt(ops_.size(), -1);
  const std::vector<int> blocks(static_cast<size_t>(blocks_), -1);
  Added added{taskAt, blocks, blocks};
  for (int index = 0; index < static_cast<int>(ops_.size()); ++index) {
    if (!isTurn(*ops_[index])) continue;
    Task task;
    addDependences(task, index, taskAt, added);
    if (ops_[index]->code == Opcode::fused) addTakeOvers(task, index);
    taskAt[index] = static_cast<int>(tasks.size());
    tasks.push_back(std::move(task));
  }
  return tasks;
}

/// The size of each block; 0 outside of the arena.
std::vector<int64_t> FunctionPlan::blockBytes() const {
  std::vector<int64_t> bytes(blocks_, 0);
  for (const Unit& unit : units_) {
    if (unit.room != Unit::Room::arena) continue;
    for (int block = 0; block < unit.blocks(); ++block)
      bytes[unit.firstBlock + block] =
          unit.inParts() ? unit.bytesOf(block) : alignTo(unit.bytes, target_.alignment);
  }
  return bytes;
}

/// Rewrites the body: reads of symbols, the regions in the given order, then the ops that the host reads and updates.
/// `starts` are the first regions of intervals; without any, every op is an interval.
Result<void> FunctionPlan::arrange(const std::vector<Op*>& regions, const std::vector<int>& starts) {
  OpList& body = func_.body.ops;
  OpList old = body.takeAll(), rest;
  for (Op* op : old.all())
    if (!isTurn(*op)) (readsEntry(*op) ? body : rest).push_back(old.take(op));
  const int first = static_cast<int>(body.size());
  intervals_.clear();
  for (int start : starts) intervals_.push_back(start ? first + start : 0);
  for (Op* region : regions) body.push_back(old.take(region));
  while (!rest.empty()) {
    if (!starts.empty()) intervals_.push_back(static_cast<int>(body.size()));
    body.push_back(rest.takeFront());
  }
  return findPlaces();
}

/// Packs the arena; with `slack`, in an order with fewer barriers if the arena stays small enough.
Result<void> FunctionPlan::order(std::optional<int64_t> slack, int64_t room) {
  const std::vector<Task> tasks = makeTasks();
  const std::vector<int64_t> bytes = blockBytes();
  std::vector<Op*> text;
  for (Op* op : func_.body.ops)
    if (isTurn(*op)) text.push_back(op);
  const auto count = [](const Intervals& cut) {
    return std::max(0, static_cast<int>(cut.starts.size()) - 1);
  };
  const Intervals cut = cutIntervals(tasks, bytes);
  kernels_ = static_cast<int>(tasks.size());
  barriers_ = barriersOfText_ = count(cut);
  if (slack) {
    const int64_t bound = lowerBound(allocations());
    const int64_t most =
        std::min(room, bound + std::max(std::min(bound / kArenaGrowth, kMostArenaGrowth), *slack));
    const Intervals found = orderTasks(
        tasks, bytes,
        std::max(bound + std::min(bound / kLiveGrowth, kMostLiveGrowth), std::min(room, bound + *slack)));
    // First the order found, if it has fewer barriers; then the text's order cut into intervals. Both must fit.
    for (const Intervals* each : {&found, &cut}) {
      if (each == &found && count(found) >= count(cut)) continue;
      std::vector<Op*> ordered;
      for (int task : each->order) ordered.push_back(text[task]);
      TG_CHECK(arrange(ordered, each->starts));
      pack();
      if (arenaBytes_ > most) continue;
      barriers_ = count(*each);
      dropNeedlessInPlace();
      return {};
    }
    TG_CHECK(arrange(text, {}));
  }
  pack();
  dropNeedlessInPlace();
  return {};
}

}  // namespace tg::plan
