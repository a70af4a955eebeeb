// SPDX-License-Identifier: Apache-2.0
// A kernel that runs again is the same kernel on the same operands, so that its results have the same bits.
//
//   %x1 = tg.fused (%x = %x, …)                        %x1 = …
//   %a = tg.fused (%x1 = %x1, …)                       %a = …
//   …                       the peak is here           …
//   %da = tg.fused (%a = %a, %d = %d)                  %a_again = tg.fused (%x1 = %x1, …)
//                                                      %da = tg.fused (%a = %a_again, %d = %d)
//
// The values kept are the ones that cost most to make for their bytes. In a transformer that is the residual
// stream: what a block computes is thrown away, and computed again when the gradient reaches the block.
#include "passes/plan/within.h"

#include <algorithm>

#include "ir/builder.h"
#include "ir/verify_structure.h"
#include "ir/work.h"
#include "passes/fuse/cost.h"
#include "passes/plan/recompute.h"

namespace tg::plan {

double workOfRegion(const Op& region, const Module& module) {
  double bytes = 0;
  for (int binding = 0; binding < region.numOperands(); ++binding)
    for (const Value* source : bindingSources(region, binding))
      bytes += static_cast<double>(source->type.bytes());
  for (const auto& result : region.results) bytes += static_cast<double>(result->type.bytes());
  return std::max(workOf(region, module), bytes * fuse::kWorkOfAByte) + fuse::kWorkOfAKernel;
}

namespace {

/// The function with its kernels in these steps.
std::unique_ptr<Item> inSteps(const Item& written, const std::vector<int>& steps) {
  std::vector<const Op*> regions;
  for (const Op* op : written.body.ops)
    if (op->code == Opcode::fused) regions.push_back(op);
  NameTable names(written);
  std::unique_ptr<Item> func = cloneItem(written);
  func->body.ops.takeAll();
  std::unordered_map<const Value*, Value*> latest;  // of each value, what the last run gave
  for (size_t arg = 0; arg < written.body.args.size(); ++arg)
    latest[written.body.args[arg].get()] = func->body.args[arg].get();
  auto at = steps.begin();
  int next = 0;
  for (const Op* op : written.body.ops) {
    const bool region = op->code == Opcode::fused, allRan = next == static_cast<int>(regions.size());
    while (at != steps.end() && (region || allRan) && *at != next) {
      Op* again = func->body.ops.push_back(cloneOp(*regions[static_cast<size_t>(*at++)], latest));
      for (const auto& result : again->results) result->name = names.unique(result->name + "_again");
    }
    if (region) ++at, ++next;
    func->body.ops.push_back(cloneOp(*op, latest));
  }
  return func;
}

}  // namespace

/// The kernels of the function, in the order of the text. The last one stands for what the host reads.
Result<std::vector<Kernel>> FunctionPlan::kernelsOfText(std::vector<int64_t>* bytes) {
  TG_CHECK(findPlaces());
  *bytes = blockBytes();
  std::vector<Kernel> kernels;
  for (Task& task : makeTasks()) kernels.push_back({std::move(task)});
  auto kernel = kernels.begin();
  Kernel end;
  for (const Op* op : ops_) {
    if (op->code != Opcode::fused) {
      forEachUse(*op, [&](Value* value) {
        if (unitOf_.contains(value)) end.task.reads.push_back(blockOf(*value));
      });
      continue;
    }
    kernel->work = workOfRegion(*op, module_);
    kernel->again =
        op->groups.empty() && std::all_of(op->results.begin(), op->results.end(), [&](const auto& result) {
          const Unit& unit = units_[static_cast<size_t>(unitOf_.at(result.get()))];
          return unit.room == Unit::Room::arena && !unit.group;
        });
    ++kernel;
  }
  kernels.push_back(std::move(end));
  return kernels;
}

Result<Planned> planWithin(const Module& module, const Item& written, const Target& target,
                           std::optional<int64_t> slack, int64_t room) {
  std::unique_ptr<Item> copy = cloneItem(written);
  std::vector<int64_t> bytes;
  TG_TRY(std::vector<Kernel> kernels, FunctionPlan(module, *copy, target).kernelsOfText(&bytes));
  Recompute recompute(std::move(kernels), std::move(bytes));
  Planned best;
  // Whether these steps do; a plan of fewer bytes is kept in any case.
  auto tried = [&](const Recompute& steps) -> Result<bool> {
    Planned planned;
    planned.func = inSteps(written, steps.steps());
    planned.plan = std::make_unique<FunctionPlan>(module, *planned.func, target);
    TG_CHECK(planned.plan->analyse(slack, room));
    planned.runsAgain = steps.runsAgain();
    planned.addedWork = steps.addedWork();
    if (!best.plan || planned.plan->arenaBytes() < best.plan->arenaBytes()) best = std::move(planned);
    return best.plan->arenaBytes() <= room;
  };
  int64_t enough = room;  // a peak that is worth a plan
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

}  // namespace tg::plan
