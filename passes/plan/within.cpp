// SPDX-License-Identifier: Apache-2.0
// Plans with a budget. A kernel that runs again is the same kernel on the same operands, so its results have the same bits.
//
//   %x1 = tg.fused (%x = %x, …)                        %x1 = …
//   %a = tg.fused (%x1 = %x1, …)                       %a = …
//   …                       the peak is here           …
//   %da = tg.fused (%a = %a, %d = %d)                  %a_again = tg.fused (%x1 = %x1, …)
//                                                      %da = tg.fused (%a = %a_again, %d = %d)
//
// The values kept are those that are expensive to compute for their size. In a transformer that is the residual stream: the
// values inside a block are dropped, and computed again when the gradient reaches the block.
#include "passes/plan/within.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>

#include "ir/attention_parts.h"
#include "ir/builder.h"
#include "ir/op_bytes.h"
#include "ir/schedule.h"
#include "ir/work.h"
#include "passes/fuse/cost.h"
#include "passes/plan/recompute.h"

namespace tg::plan {

namespace {

/// How many times faster than in f32 a region multiplies; f32x3 is three products of 16 bits.
double speedOf(const Op& region) {
  const Schedule schedule = scheduleOf(region);
  if (!std::holds_alternative<CoopmatSchedule>(schedule) &&
      !std::holds_alternative<CoopmatAttentionSchedule>(schedule))
    return 1;
  return anyInside(region, isSplit) ? fuse::kMatrixSpeed / 3 : fuse::kMatrixSpeed;
}

}  // namespace

double workOfRegion(const Op& region, const Module& module, const Target& target) {
  double bytes = 0;
  forEachUse(region, [&](const Value* source) { bytes += static_cast<double>(source->type.bytes()); });
  for (const auto& result : region.results) bytes += static_cast<double>(result->type.bytes());
  return std::max(workOf(region, module) / speedOf(region), bytes * fuse::kWorkOfAByte) +
         fuse::kWorkOfAKernel * static_cast<double>(target.parallel);
}

namespace {

/// A copy of the function that runs its kernels in these steps. `repeats` says which kernels are other runs of earlier ones.
std::unique_ptr<Item> inSteps(const Item& written, const std::vector<int>& steps,
                              const std::vector<int>& repeats) {
  std::vector<const Op*> turns;
  for (const Op* op : written.body.ops)
    if (isTurn(*op)) turns.push_back(op);
  std::vector<std::vector<const Op*>> twins(turns.size());
  for (size_t turn = 0; turn < turns.size(); ++turn)
    if (repeats[turn] >= 0) twins[static_cast<size_t>(repeats[turn])].push_back(turns[turn]);
  NameTable names(written);
  std::unique_ptr<Item> func = cloneItem(written);
  func->body.ops.takeAll();
  std::unordered_map<const Value*, Value*> latest;  // for each value, the result of the last run
  for (size_t arg = 0; arg < written.body.args.size(); ++arg)
    latest[written.body.args[arg].get()] = func->body.args[arg].get();
  auto run = [&](size_t turn) {
    Op* made = func->body.ops.push_back(cloneOp(*turns[turn], latest));
    for (const Op* twin : twins[turn])
      for (int i = 0; i < static_cast<int>(twin->results.size()); ++i)
        latest[twin->result(i)] = made->result(i);
    return made;
  };
  auto at = steps.begin();
  size_t next = 0;
  for (const Op* op : written.body.ops) {
    if (!isTurn(*op) && next < turns.size()) {
      func->body.ops.push_back(cloneOp(*op, latest));
      continue;
    }
    // A kernel that is another run of an earlier one is among the steps as that one.
    if (next < turns.size() && repeats[next] >= 0) {
      ++next;
      continue;
    }
    while (at != steps.end() && static_cast<size_t>(*at) != next)
      for (const auto& result : run(static_cast<size_t>(*at++))->results)
        result->name = names.unique(result->name + "_again");
    if (next < turns.size())
      ++at, run(next++);
    else
      func->body.ops.push_back(cloneOp(*op, latest));
  }
  return func;
}

/// A key of what a region computes, and how. Bindings that it does not read do not count.
std::string bytesOf(const Op& region) {
  ValueNumbering numbers;
  OpBytes bytes(numbers);
  bytes.attrs(region.attrs);
  for (const auto& arg : region.regions[0]->args) {
    if (arg->uses.empty()) continue;
    bytes.value(arg.get());
    bytes.type(arg->type);
  }
  for (const Op* op : region.regions[0]->ops) bytes.op(*op);
  bytes.results(region);
  return bytes.take();
}

}  // namespace

/// Whether only this op writes the bytes of its results: they are lone values or whole groups, in the arena.
bool FunctionPlan::mayRunAgain(const Op& op) const {
  if (op.code != Opcode::fused) return false;
  const std::vector<ResultSlot> slots = resultSlots(op);
  return std::ranges::all_of(slots, [&](const ResultSlot& slot) {
    const Unit& unit = *unitOf(*op.result(slot.first));
    return unit.room == Unit::Room::arena && (unit.inParts() || !unit.group) && defines(unit, op, slot);
  });
}

/// Marks kernels that compute the same as an earlier one, from the same values in the same way, as rematerialize makes
/// them: each is another run of the earlier one, and readers of its results may read those of any run.
void FunctionPlan::findRepeats(std::vector<Kernel>& kernels) const {
  std::map<std::pair<std::string, std::vector<const Value*>>, int> found;
  std::unordered_map<const Value*, const Value*> same;  // of a run's results: those of the first run
  std::vector<const Op*> turns;
  std::vector<int> blocks(static_cast<size_t>(blocks_));
  std::iota(blocks.begin(), blocks.end(), 0);
  for (const Op* op : ops_) {
    if (!isTurn(*op)) continue;
    const auto turn = static_cast<int>(turns.size());
    turns.push_back(op);
    if (!kernels[static_cast<size_t>(turn)].again) continue;
    std::vector<const Value*> sources;
    for (int binding = 0; binding < op->numOperands(); ++binding) {
      if (op->operands[binding].value->uses.empty()) continue;
      for (const Value* source : bindingSources(*op, binding)) {
        auto first = same.find(source);
        sources.push_back(first == same.end() ? source : first->second);
      }
    }
    const auto [first, fresh] = found.try_emplace({bytesOf(*op), std::move(sources)}, turn);
    if (fresh) continue;
    kernels[static_cast<size_t>(turn)].repeats = first->second;
    const Op& earlier = *turns[static_cast<size_t>(first->second)];
    for (int i = 0; i < static_cast<int>(op->results.size()); ++i) {
      same[op->result(i)] = earlier.result(i);
      blocks[static_cast<size_t>(blockOf(*op->result(i)))] = blockOf(*earlier.result(i));
    }
  }
  for (Kernel& kernel : kernels) {
    for (std::vector<int>* list : {&kernel.task.reads, &kernel.task.writes}) {
      for (int& block : *list) block = blocks[static_cast<size_t>(block)];
      std::ranges::sort(*list);
      list->erase(std::unique(list->begin(), list->end()), list->end());
    }
    for (auto& [written, read] : kernel.task.takeOver) {
      written = blocks[static_cast<size_t>(written)];
      read = blocks[static_cast<size_t>(read)];
    }
  }
}

Result<std::vector<Kernel>> FunctionPlan::kernelsOfText(std::vector<int64_t>* bytes) {
  TG_CHECK(findPlaces());
  *bytes = blockBytes();
  std::vector<Kernel> kernels;
  for (Task& task : makeTasks()) kernels.push_back({std::move(task)});
  auto kernel = kernels.begin();
  Kernel end;
  for (const Op* op : ops_) {
    if (!isTurn(*op)) {
      forEachUse(*op, [&](Value* value) {
        if (unitOf(*value)) end.task.reads.push_back(blockOf(*value));
      });
      continue;
    }
    kernel->work = op->code == Opcode::fused ? workOfRegion(*op, module_, target_) : 0;
    kernel->again = mayRunAgain(*op);
    ++kernel;
  }
  kernels.push_back(std::move(end));
  findRepeats(kernels);
  return kernels;
}

/// One search. If no plan fits, it returns the smallest that it has tried; which plans it tries depends on the room.
static Result<Planned> searchWithin(const Module& module, const Item& written, const Target& target,
                                    std::optional<int64_t> slack, int64_t room) {
  std::unique_ptr<Item> copy = cloneItem(written);
  std::vector<int64_t> bytes;
  TG_TRY(std::vector<Kernel> kernels, FunctionPlan(module, *copy, target).kernelsOfText(&bytes));
  std::vector<int> repeats;
  for (const Kernel& kernel : kernels) repeats.push_back(kernel.repeats);
  Recompute recompute(std::move(kernels), std::move(bytes));
  Planned best;
  // Plans these steps, and keeps the plan if its arena is the smallest so far. Returns whether the best plan fits.
  auto tried = [&](const Recompute& steps) -> Result<bool> {
    Planned planned;
    planned.func = inSteps(written, steps.steps(), repeats);
    planned.plan = std::make_unique<FunctionPlan>(module, *planned.func, target);
    TG_CHECK(planned.plan->analyse(slack, room));
    planned.runsAgain = steps.runsAgain();
    planned.addedWork = steps.addedWork();
    if (!best.plan || planned.plan->arenaBytes() < best.plan->arenaBytes()) best = std::move(planned);
    return best.plan->arenaBytes() <= room;
  };
  int64_t enough = room;  // the peak at which the next plan is tried
  for (bool more = true; more;) {
    if (recompute.peak() > enough && (more = recompute.step())) continue;
    if (more) {
      Recompute fewer = recompute;
      fewer.spare(enough);
      TG_TRY(bool done, tried(fewer));
      if (done) break;
    }
    TG_TRY(bool done, tried(recompute));
    if (done) break;
    enough = recompute.peak() - std::max<int64_t>(1, (best.plan->arenaBytes() - room) / 2);
  }
  return best;
}

Result<Planned> planWithin(const Module& module, const Item& written, const Target& target,
                           std::optional<int64_t> slack, int64_t room) {
  constexpr int kMoreSearches = 3;  // each takes as long as the first
  TG_TRY(Planned best, searchWithin(module, written, target, slack, room));
  for (int i = 0; i < kMoreSearches && best.plan->arenaBytes() > room; ++i) {
    TG_TRY(Planned less, searchWithin(module, written, target, slack, best.plan->arenaBytes() - 1));
    if (less.plan->arenaBytes() >= best.plan->arenaBytes()) break;
    best = std::move(less);
  }
  return best;
}

}  // namespace tg::plan
