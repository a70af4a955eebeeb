// SPDX-License-Identifier: Apache-2.0
// Sets the fields of schedules that follow from the finished function, after all regions are formed and tuned: the blocks
// that products leave out because another kernel's mask hides them or no other kernel reads them, and how kernels read
// whose bindings come near the target's limit or whose values have too many texels for a view. Lowering takes all of it
// from the schedule's text.
//
//   before:  schedule = matmul{tile = [4, 4], shared = [32, 32, 16]}
//   after:   schedule = matmul{tile = [4, 4], shared = [32, 32, 16], hidden = true}

#include <string>
#include <unordered_map>

#include "codegen/schedule.h"
#include "ir/access.h"
#include "ir/op_bytes.h"
#include "passes/fuse/settle.h"

namespace tg::fuse {

void settleSchedules(Item& func, const Target& target, const PassContext& context) {
  const auto change = [](Op& op, const Schedule& before, const Schedule& after) {
    if (!(after == before)) op.setAttr("schedule", scheduleAttr(after));
  };
  // Backwards: which blocks a kernel need not store follows from the schedules of later kernels.
  for (auto op = func.body.ops.rbegin(); op != func.body.ops.rend(); ++op) {
    if ((*op)->code != Opcode::fused) continue;
    const Schedule chosen = scheduleOf(**op);
    change(**op, chosen, withSkips(**op, chosen));
  }

  std::unordered_map<std::string, Schedule> known;  // by region, since layers repeat regions
  for (Op* op : func.body.ops) {
    if (op->code != Opcode::fused) continue;
    const Schedule chosen = scheduleOf(*op);
    Schedule schedule = chosen;
    if (readsAreTight(*op, target)) {
      const std::string key = regionKey(*op) + scheduleAttr(schedule).str();
      auto found = known.find(key);
      if (found == known.end()) found = known.emplace(key, withReads(*op, target, schedule)).first;
      schedule = found->second;
    }
    change(*op, chosen, schedule);
    for (int64_t binding : storageReads(schedule))
      context.remark(
          op->loc, "%{} has more texels than the {} of a view on target '{}'; it is read as storage",
          bindingSources(*op, static_cast<int>(binding))[0]->name, target.texelElements, target.name);
  }
}

}  // namespace tg::fuse
