// SPDX-License-Identifier: Apache-2.0
#include "passes/fuse/slice.h"

#include <unordered_set>

namespace tg::fuse {

std::unordered_map<const Value*, Value*> outsideOf(const Op& fused) {
  std::unordered_map<const Value*, Value*> outside;
  for (const Operand& operand : fused.operands)
    if (operand.bindsValue()) outside[operand.value] = operand.items[0].value;
  const Op& yield = *fused.regions[0]->terminator();
  for (int slot = 0; fused.groups.empty() && slot < yield.numOperands(); ++slot)
    outside[yield.in(slot)] = fused.result(slot);
  return outside;
}

int slotOf(const Value& result) {
  int slot = 0;
  while (result.def->result(slot) != &result) ++slot;
  return slot;
}

const Value* innerOf(const Value& result) { return result.def->regions[0]->terminator()->in(slotOf(result)); }

std::optional<Slice> sliceTo(const Op& fused, const Value* value,
                             const std::unordered_map<const Value*, Value*>& outside,
                             const std::function<bool(const Value&)>& stands,
                             const std::function<bool(const Op&)>& allows) {
  Slice slice;
  std::unordered_set<const Value*> seen{value};
  std::unordered_set<const Op*> ops;
  std::vector<const Value*> work{value};
  for (size_t next = 0; next < work.size(); ++next) {
    const Value* at = work[next];
    auto there = outside.find(at);
    if (at != value && there != outside.end() && stands(*there->second)) {
      slice.leaves.push_back(at);
      continue;
    }
    if (!at->def || !allows(*at->def)) return std::nullopt;
    ops.insert(at->def);
    forEachUse(static_cast<const Op&>(*at->def), [&](Value* operand) {
      if (seen.insert(operand).second) work.push_back(operand);
    });
  }
  for (Op* op : fused.regions[0]->ops)
    if (ops.contains(op)) slice.ops.push_back(op);
  return slice;
}

}  // namespace tg::fuse
