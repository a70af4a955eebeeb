#include "ir/access.h"

#include <unordered_set>

#include "ir/kernel/custom.h"

namespace tg {

std::vector<Value*> bindingSources(const Op& fused, int binding) {
  const Operand& source = fused.operands[binding].items[0];
  if (source.kind != Operand::Kind::group) return {source.value};
  std::vector<Value*> members;
  for (const Operand& member : source.items) members.push_back(member.value);
  return members;
}

std::vector<ResultSlot> resultSlots(const Op& fused) {
  std::vector<ResultSlot> slots;
  if (fused.groups.empty()) {
    for (int index = 0; index < static_cast<int>(fused.results.size()); ++index)
      slots.push_back({index, 1, false});
    return slots;
  }
  int first = 0;
  for (int members : fused.groups) {
    slots.push_back({first, members == 0 ? 1 : members, members != 0});
    first += slots.back().count;
  }
  return slots;
}

std::vector<Type> typesOf(const std::vector<Value*>& values) {
  std::vector<Type> types;
  for (const Value* value : values) types.push_back(value->type);
  return types;
}

int64_t placedBytes(const Value& value) {
  if (!value.place || value.place->pitch == 0 || value.type.rank() == 0) return value.type.bytes();
  return value.type.elements() / value.type.shape.back() * value.place->pitch * byteSize(value.type.dtype);
}

bool keepsElements(const Op& op) {
  switch (op.code) {
  case Opcode::cast:
  case Opcode::stop_gradient:
  case Opcode::one_minus_pow:
  case Opcode::dropout:  // of x; see where its key is told apart
  case Opcode::clamp:
  case Opcode::leaky_relu:
  case Opcode::gelu:
  case Opcode::gelu_grad:
  case Opcode::adam_update:
  case Opcode::where_causal:
  case Opcode::sgd_update:
  case Opcode::reshape:
  case Opcode::broadcast_to: return true;
  default: return op.info().scalar != Scalar::none;
  }
}

/// Whether a custom kernel's result is what the inout parameter of a binding, and no other, holds.
static bool takesOver(const Op& fused, const Op& custom, int binding, int result, const Module& module) {
  const Item* kernel = customKernel(custom, module);
  const Op* yield = fused.regions[0]->terminator();
  if (!kernel || !yield || result >= yield->numOperands()) return false;
  bool found = false;
  for (const CustomParam& param : customParams(*kernel)) {
    if (param.input < 0 || customBinding(fused, custom, param.input) != binding) continue;
    if (found || param.result < 0 || yield->in(result) != custom.result(param.result)) return false;
    found = true;
  }
  return found;
}

bool readsOnlyWrittenElement(const Op& fused, int binding, int result, const Module& module) {
  if (const Op* custom = customOf(fused)) return takesOver(fused, *custom, binding, result, module);
  if (fused.attr("schedule").text != "map" || fused.regions.empty()) return false;
  const Value* source = fused.operands[binding].value;
  const int64_t count = source->type.elements();
  std::unordered_set<const Value*> reached{source};
  for (const auto& op : fused.regions[0]->ops) {
    bool reads = false;
    forEachUse(static_cast<const Op&>(*op), [&](Value* value) { reads |= reached.count(value) > 0; });
    if (!reads || op->code == Opcode::yield) continue;
    if (!keepsElements(*op)) return false;
    if (op->code == Opcode::dropout && reached.count(op->in(1))) return false;  // every element reads the key
    for (const auto& value : op->results) {
      if (value->type.elements() != count) return false;
      reached.insert(value.get());
    }
  }
  const Op* yield = fused.regions[0]->terminator();
  if (!yield || result >= yield->numOperands()) return false;
  for (const Operand& slot : yield->operands)
    if (slot.value->type.elements() > count) return false;
  const Value* written = yield->in(result);
  return reached.count(written) > 0 && byteSize(written->type.dtype) == byteSize(source->type.dtype);
}

}  // namespace tg
