// SPDX-License-Identifier: Apache-2.0
#include "passes/fuse/merge_parts.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "ir/access.h"

namespace tg::fuse {

int64_t bytesTakenOver(const Op& fused, const Module& module, const std::function<bool(const Value&)>& dies) {
  if (fused.code != Opcode::fused || !fused.groups.empty()) return 0;
  int64_t bytes = 0;
  std::vector<bool> taken(fused.operands.size());
  for (int slot = 0; slot < static_cast<int>(fused.results.size()); ++slot)
    for (int binding = 0; binding < fused.numOperands(); ++binding) {
      const Operand& source = fused.operands[static_cast<size_t>(binding)].items[0];
      if (source.kind != Operand::Kind::value || taken[static_cast<size_t>(binding)] ||
          source.value->type.bytes() != fused.result(slot)->type.bytes() || !dies(*source.value) ||
          !readsOnlyWrittenElement(fused, binding, slot, module))
        continue;
      taken[static_cast<size_t>(binding)] = true;
      bytes += source.value->type.bytes();
      break;
    }
  return bytes;
}

std::vector<std::vector<const Value*>> runsOfGroups(const Item& func) {
  std::vector<std::vector<const Value*>> runs;
  std::unordered_map<const Value*, size_t> runOf;
  // Puts members into one run: the first that holds one of them, into which other such runs are merged.
  auto join = [&](const std::vector<const Value*>& members) {
    size_t to = runs.size();
    for (const Value* member : members)
      if (auto run = runOf.find(member); run != runOf.end()) to = std::min(to, run->second);
    if (to == runs.size()) runs.emplace_back();
    auto add = [&](const Value* value) {
      runOf[value] = to;
      runs[to].push_back(value);
    };
    for (const Value* member : members) {
      auto run = runOf.find(member);
      if (run == runOf.end()) {
        add(member);
      } else if (const size_t from = run->second; from != to) {
        for (const Value* value : std::exchange(runs[from], {})) add(value);
      }
    }
  };
  for (const Op* op : func.body.ops) {
    if (op->code != Opcode::fused) continue;
    for (const ResultSlot& slot : resultSlots(*op)) {
      std::vector<const Value*> members;
      for (int at = 0; slot.group && at < slot.count; ++at) members.push_back(op->result(slot.first + at));
      if (slot.group) join(members);
    }
    for (int binding = 0; binding < op->numOperands(); ++binding) {
      if (!op->operands[static_cast<size_t>(binding)].bindsGroup()) continue;
      std::vector<const Value*> members;
      for (const Value* value : bindingSources(*op, binding))
        if (value->def && value->def->code == Opcode::fused) members.push_back(value);
      if (!members.empty()) join(members);
    }
  }
  std::erase_if(runs, [](const auto& run) { return run.empty(); });
  return runs;
}

}  // namespace tg::fuse
