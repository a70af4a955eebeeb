// SPDX-License-Identifier: Apache-2.0
#include "passes/kernel/activity.h"

#include <algorithm>

#include "ir/kernel/semantics.h"
#include "passes/kernel/effects.h"

namespace tg {

bool carriesGradient(const Op& op) {
  if (op.code == Opcode::k_bitcast || semantics(op.code).gives != LaneGives::same) return false;
  return !hasNoGradient(op.info().scalar);
}

/// Whether an op may give a result, or have a derivative, that is not finite though its operands are.
static bool isSingular(const Op& op) {
  if (op.code == Opcode::k_call) return true;  // the body is not known here
  if (op.code == Opcode::k_div && op.operands[1].isLiteral()) return op.operands[1].number() == 0;
  return semantics(op.code).has(KernelSemantics::pole);
}

Activity::Activity(const Item& kernel, const std::vector<const Value*>& wrt,
                   const std::vector<const Value*>& of)
    : varied_(wrt.begin(), wrt.end()), useful_(of.begin(), of.end()) {
  do {
    changed_ = false;
    forward(kernel.body);
  } while (changed_);
  do {
    changed_ = false;
    backward(kernel.body);
  } while (changed_);
}

bool Activity::active(const Op& op) const {
  if (const Operand* element = elementOf(op); element && active(element->value)) return true;
  for (const auto& result : op.results)
    if (active(result.get())) return true;
  for (const auto& region : op.regions)
    for (Op* inner : region->ops)
      if (active(*inner)) return true;
  return false;
}

bool Activity::mark(std::unordered_set<const Value*>& set, const Value* value) {
  bool fresh = set.insert(value).second;
  changed_ |= fresh;
  return fresh;
}

/// Whether a gradient may pass through a value: a float, or a buffer, whose words may be parts of floats.
static bool isReal(const Value& value) { return isFloat(value.type.dtype) || value.type.isBuffer(); }

/// Marks `to` with what holds of `from`: varied, singular.
void Activity::spread(const Operand& from, const Value* to) {
  if (!from.value || !isReal(*to)) return;
  if (varied_.contains(from.value)) mark(varied_, to);
  if (singular_.contains(from.value)) mark(singular_, to);
}

/// Marks an operand of something useful as useful.
void Activity::want(const Operand& from) {
  if (from.value && isReal(*from.value)) mark(useful_, from.value);
}

void Activity::forward(const Block& block) {
  for (Op* op : block.ops) {
    for (const auto& region : op->regions) forward(*region);
    if (eachFlow(*op, [&](const Operand& from, const Value* to) { spread(from, to); })) continue;
    if (!carriesGradient(*op)) continue;
    for (const auto& result : op->results) {
      if (!isFloat(result->type.dtype) || result->type.isBuffer()) continue;
      for (const Operand& operand : op->operands)
        if (operand.kind == Operand::Kind::value && isFloat(operand.value->type.dtype))
          spread(operand, result.get());
      if (isSingular(*op)) mark(singular_, result.get());
    }
  }
}

void Activity::backward(const Block& block) {
  for (const Op* op = block.ops.back(); op; op = op->previous()) {
    const bool moves = eachFlow(*op, [&](const Operand& from, const Value* to) {
      if (useful_.contains(to)) want(from);
    });
    const bool useful =
        std::ranges::any_of(op->results, [&](const auto& result) { return useful_.contains(result.get()); });
    if (!moves && useful && carriesGradient(*op))
      for (const Operand& operand : op->operands)
        if (operand.kind == Operand::Kind::value) want(operand);
    for (const auto& region : op->regions) backward(*region);
  }
}

}  // namespace tg
