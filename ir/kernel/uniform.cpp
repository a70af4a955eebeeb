// SPDX-License-Identifier: Apache-2.0
// Computes which values of a kernel are uniform: the same in every invocation of a workgroup or subgroup. Starts with
// all values uniform and marks values divergent until nothing changes, which handles loops.
#include "ir/kernel/semantics.h"

namespace tg {

Uniformity::Uniformity(const Item& kernel, Scope scope) : workgroup_(kernel.workgroup), scope_(scope) {
  do {
    changed_ = false;
    visit(kernel.body);
  } while (changed_);
}

bool Uniformity::uniform(const Operand& operand) const {
  if (operand.value && !uniform(operand.value)) return false;
  for (const Operand& item : operand.items)
    if (!uniform(item)) return false;
  return true;
}

bool Uniformity::entersUniformly(const Op& op) const {
  if (op.code == Opcode::k_if) return uniform(op.operands[0]);
  const auto [from, to, step] = rangeOf(op);
  return uniform(from) && uniform(to) && uniform(step);
}

void Uniformity::mark(const Value* value) { changed_ |= divergent_.insert(value).second; }

bool Uniformity::resultUniform(const Op& op) const {
  switch (semantics(op.code).uniform) {
  case KernelUniform::workgroup: return true;
  case KernelUniform::onUnitAxis: return workgroup_[op.operands[0].integer] == 1;
  case KernelUniform::subgroup: return scope_ == Scope::subgroup;
  case KernelUniform::never: return false;
  case KernelUniform::ofReadOnlyMemory:
    if (op.operands[0].value->type.mode != BufMode::in) return false;
    break;
  case KernelUniform::ofOperands: break;
  }
  for (const Operand& operand : op.operands)
    if (!uniform(operand)) return false;
  return true;
}

void Uniformity::visit(const Block& body) {
  for (Op* op : body.ops) {
    if (op->code == Opcode::k_if) {
      visitIf(*op);
    } else if (op->code == Opcode::k_for) {
      visitFor(*op);
    } else if (!resultUniform(*op)) {
      for (const auto& result : op->results) mark(result.get());
    }
  }
}

void Uniformity::visitIf(const Op& op) {
  for (const auto& region : op.regions) visit(*region);
  for (size_t index = 0; index < op.results.size(); ++index) {
    bool same = uniform(op.operands[0]);
    for (const auto& region : op.regions)
      if (const Op* yield = yieldOf(*region)) same = same && uniform(yield->operands[index]);
    if (!same) mark(op.results[index].get());
  }
}

void Uniformity::visitFor(const Op& op) {
  const bool bounds = entersUniformly(op);
  if (!bounds) mark(op.operands[0].value);
  const Op* yield = yieldOf(*op.regions[0]);
  const auto& carried = iterArgs(op);
  for (size_t index = 0; index < carried.size(); ++index) {
    bool same = bounds && uniform(carried[index].items[0]) && yield && uniform(yield->operands[index]);
    if (same) continue;
    mark(carried[index].value);
    if (index < op.results.size()) mark(op.results[index].get());
  }
  visit(*op.regions[0]);
}

}  // namespace tg
