// SPDX-License-Identifier: Apache-2.0
// Which values of a kernel are the same in every invocation of a workgroup. Starts from "all are" and
// marks values divergent until nothing changes, which settles loops.
#include "ir/kernel/kernel.h"

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

void Uniformity::mark(const Value* value) { changed_ |= divergent_.insert(value).second; }

bool Uniformity::resultUniform(const Op& op) const {
  switch (op.code) {
  case Opcode::k_workgroup_id:
  case Opcode::k_num_workgroups:
  case Opcode::k_dim:
  case Opcode::k_shared:
  case Opcode::k_local:
  case Opcode::k_workgroup_reduce: return true;
  case Opcode::k_global_id:
  case Opcode::k_local_id: return workgroup_[op.operands[0].integer] == 1;
  case Opcode::k_subgroup_id:
  case Opcode::k_subgroup_reduce:
  case Opcode::k_subgroup_ballot: return scope_ == Scope::subgroup;
  case Opcode::k_coopmat_splat:
  case Opcode::k_coopmat_load:
  case Opcode::k_coopmat_mma:
  case Opcode::k_coopmat_add: return scope_ == Scope::subgroup;
  case Opcode::k_subgroup_lane:
  case Opcode::k_subgroup_shuffle:
  case Opcode::k_atomic_add:
  case Opcode::k_atomic_and:
  case Opcode::k_atomic_or:
  case Opcode::k_atomic_xor:
  case Opcode::k_atomic_min:
  case Opcode::k_atomic_max:
  case Opcode::k_atomic_exchange:
  case Opcode::k_atomic_compare_exchange: return false;
  case Opcode::k_load:
  case Opcode::k_exact_load:
    if (op.operands[0].value->type.mode != BufMode::in) return false;
    break;
  default: break;
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
  bool bounds = uniform(op.operands[0].items[0]) && uniform(*op.keyword("to"));
  if (const Operand* step = op.keyword("step")) bounds = bounds && uniform(*step);
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
