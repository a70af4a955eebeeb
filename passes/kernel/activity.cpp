// SPDX-License-Identifier: Apache-2.0
#include "passes/kernel/activity.h"

#include "ir/kernel/semantics.h"
#include "passes/kernel/effects.h"

namespace tg {

bool carriesGradient(const Op& op) {
  if (op.code == Opcode::k_bitcast || semantics(op.code).gives != LaneGives::same) return false;
  return !hasNoGradient(op.info().scalar);
}

/// Whether a function of finite operands may give what is not finite, or have such a derivative.
static bool isSingular(const Op& op) {
  if (op.code == Opcode::k_call) return true;  // of a body that is not known here
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

/// What holds of `from` holds of `to`.
void Activity::spread(const Operand& from, const Value* to) {
  if (!from.value) return;
  if (varied_.contains(from.value) && (isFloat(to->type.dtype) || to->type.isBuffer())) mark(varied_, to);
  if (singular_.contains(from.value)) mark(singular_, to);
}

void Activity::forward(const Block& block) {
  for (Op* op : block.ops) {
    for (const auto& region : op->regions) forward(*region);
    if (op->code == Opcode::k_if) {
      for (const auto& region : op->regions)
        if (const Op* yield = yieldOf(*region))
          for (size_t i = 0; i < op->results.size(); ++i) spread(yield->operands[i], op->results[i].get());
    } else if (op->code == Opcode::k_for) {
      forwardLoop(*op);
    } else if (elementOf(*op)) {
      forwardElement(*op);
    } else if (carriesGradient(*op)) {
      for (const auto& result : op->results) {
        if (!isFloat(result->type.dtype) || result->type.isBuffer()) continue;
        for (const Operand& operand : op->operands)
          if (operand.kind == Operand::Kind::value && isFloat(operand.value->type.dtype))
            spread(operand, result.get());
        if (isSingular(*op)) mark(singular_, result.get());
      }
    }
  }
}

void Activity::forwardLoop(const Op& op) {
  const auto& carried = iterArgs(op);
  const Op* yield = yieldOf(*op.regions[0]);
  for (size_t i = 0; i < carried.size(); ++i) {
    for (const Operand* from : {&carried[i].items[0], &yield->operands[i]}) {
      spread(*from, carried[i].value);
      if (!op.results.empty()) spread(*from, op.results[i].get());
    }
  }
}

void Activity::forwardElement(const Op& op) {
  const Operand& element = *elementOf(op);
  if (writesElement(op)) spread(op.operands[static_cast<size_t>(broughtOperand(op))], element.value);
  for (const auto& result : op.results)
    if (isFloat(result->type.dtype)) spread(element, result.get());
}

void Activity::backward(const Block& block) {
  auto useful = [&](const Op& op) {
    for (const auto& result : op.results)
      if (useful_.contains(result.get())) return true;
    return false;
  };
  for (const Op* each = block.ops.back(); each; each = each->previous()) {
    const Op& op = *each;
    if (op.code == Opcode::k_if) {
      for (const auto& region : op.regions)
        if (const Op* yield = yieldOf(*region))
          for (size_t i = 0; i < op.results.size(); ++i)
            if (useful_.contains(op.results[i].get()) && yield->operands[i].value)
              mark(useful_, yield->operands[i].value);
    } else if (op.code == Opcode::k_for) {
      backwardLoop(op);
    } else if (elementOf(op)) {
      backwardElement(op);
    } else if (useful(op) && carriesGradient(op)) {
      for (const Operand& operand : op.operands)
        if (operand.kind == Operand::Kind::value && isFloat(operand.value->type.dtype))
          mark(useful_, operand.value);
    }
    for (const auto& region : op.regions) backward(*region);
  }
}

void Activity::backwardLoop(const Op& op) {
  const auto& carried = iterArgs(op);
  const Op* yield = yieldOf(*op.regions[0]);
  for (size_t i = 0; i < carried.size(); ++i) {
    bool wanted =
        useful_.contains(carried[i].value) || (!op.results.empty() && useful_.contains(op.results[i].get()));
    if (!wanted) continue;
    if (yield->operands[i].value) mark(useful_, yield->operands[i].value);
    if (carried[i].items[0].value) mark(useful_, carried[i].items[0].value);
  }
}

void Activity::backwardElement(const Op& op) {
  const Operand& element = *elementOf(op);
  for (const auto& result : op.results)
    if (useful_.contains(result.get())) mark(useful_, element.value);
  if (!writesElement(op) || !useful_.contains(element.value)) return;
  const Operand& brought = op.operands[static_cast<size_t>(broughtOperand(op))];
  if (brought.value && isFloat(brought.value->type.dtype)) mark(useful_, brought.value);
}

}  // namespace tg
