// SPDX-License-Identifier: Apache-2.0
#include "passes/kernel/kernel_facts.h"

#include <algorithm>

#include "ir/divide.h"
#include "passes/kernel/effects.h"

namespace tg {

KernelFacts::KernelFacts(const Item& kernel) : kernel_(kernel), uniformity_(kernel) {
  for (const auto& arg : kernel.body.args) owner_[arg.get()] = &kernel.body;
  visit(kernel.body, nullptr);
  findSteering();
  refills_ = findRefills(*this);
  for (const auto& refill : refills_)
    for (const auto& accesses : {refill->stores, refill->loads})
      for (const Op* access : accesses) refillOf_[access] = refill.get();
}

void KernelFacts::visit(const Block& block, const Op* parent) {
  parent_[&block] = parent;
  for (Op* op : block.ops) {
    for (const auto& result : op->results) owner_[result.get()] = &block;
    if (writesElement(*op)) mutable_.insert(elementOf(*op)->value);
    if (parent && synchronizes(*op)) synchronizesInside_ = true;
    for (const auto& region : op->regions) {
      for (const auto& arg : region->args) owner_[arg.get()] = region.get();
      outer_[region.get()] = &block;
      visit(*region, op);
    }
  }
}

/// Marks the conditions and bounds of what whole workgroups enter, and all values from which these are computed.
void KernelFacts::findSteering() {
  const auto& size = kernel_.workgroup;
  if (size[0] * size[1] * size[2] == 1 && !synchronizesInside_) return;
  std::vector<const Value*> work;
  auto mark = [&](const Value* value) {
    if (steers_.insert(value).second) work.push_back(value);
  };
  auto add = [&](const Operand& operand) { forEachValue(operand, mark); };
  walk(kernel_.body, [&](const Op& op) {
    if (op.regions.empty() || !entersUniformly(op)) return;
    if (op.code == Opcode::k_if) return add(op.operands[0]);
    const auto [from, to, step] = rangeOf(op);
    for (const Operand* bound : {&from, &to, &step}) add(*bound);
  });
  while (!work.empty()) {
    const Value* value = work.back();
    work.pop_back();
    const Op* op = value->def ? value->def : parent_.at(owner_.at(value));
    if (!op || (!value->def && value == op->operands[0].value))
      continue;  // a parameter, or the index of a loop
    if (op->regions.empty()) {
      for (const Operand& operand : op->operands) add(operand);
      continue;
    }
    const auto same = [&](const auto& each) { return each.get() == value; };
    const auto& list = value->def ? op->results : op->regions[0]->args;
    auto at = std::ranges::find_if(list, same) - list.begin() - (value->def ? 0 : 1);
    for (const auto& region : op->regions)
      if (const Op* yield = yieldOf(*region)) add(yield->operands[static_cast<size_t>(at)]);
    if (op->code == Opcode::k_for) add(iterArgs(*op)[static_cast<size_t>(at)].items[0]);
  }
}

std::vector<const Op*> KernelFacts::loopsAround(const Block& inner) const {
  std::vector<const Op*> loops;
  for (const Block* block = &inner; const Op* op = parent_.at(block); block = outer_.at(block))
    if (op->code == Opcode::k_for) loops.push_back(op);
  std::ranges::reverse(loops);
  return loops;
}

const Refill* KernelFacts::refillOf(const Op& access) const {
  auto it = refillOf_.find(&access);
  return it == refillOf_.end() ? nullptr : it->second;
}

bool KernelFacts::isMemory(const Value* value) const {
  if (!value->def) return false;
  const Operand* element = elementOf(*value->def);
  if (!element) return false;
  if (writesElement(*value->def)) return true;
  return isMutable(element->value) && (!refillOf(*value->def) || outsideLoops(value));
}

std::vector<const Value*> KernelFacts::memoryIn(const Block& block) const {
  std::vector<const Value*> out;
  for (Op* op : block.ops) {
    for (const auto& result : op->results)
      if (isMemory(result.get())) out.push_back(result.get());
    if (op->code != Opcode::k_if) continue;
    for (const auto& region : op->regions) {
      std::vector<const Value*> inner = memoryIn(*region);
      out.insert(out.end(), inner.begin(), inner.end());
    }
  }
  return out;
}

int64_t KernelFacts::staticTrips(const Op& loop) {
  const auto [from, to, step] = rangeOf(loop);
  if (!from.isLiteral() || !to.isLiteral() || !step.isLiteral()) return -1;
  return std::max<int64_t>(0, divideCeil(to.integer - from.integer, step.integer));
}

}  // namespace tg
