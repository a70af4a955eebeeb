// SPDX-License-Identifier: Apache-2.0
#include "passes/kernel/kernel_facts.h"

#include <algorithm>

#include "passes/kernel/effects.h"

namespace tg {

KernelFacts::KernelFacts(const Item& kernel) : kernel_(kernel), uniformity_(kernel) {
  for (const auto& arg : kernel.body.args) owner_[arg.get()] = &kernel.body;
  visit(kernel.body, nullptr);
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

std::vector<const Op*> KernelFacts::loopsAround(const Block& inner) const {
  std::vector<const Op*> loops;
  for (const Block* block = &inner; const Op* op = parent_.at(block); block = outer_.at(block))
    if (op->code == Opcode::k_for) loops.push_back(op);
  std::reverse(loops.begin(), loops.end());
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
  return std::max<int64_t>(0, (to.integer - from.integer + step.integer - 1) / step.integer);
}

}  // namespace tg
