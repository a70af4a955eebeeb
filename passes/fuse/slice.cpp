// SPDX-License-Identifier: Apache-2.0
#include "passes/fuse/slice.h"

#include <algorithm>
#include <unordered_set>

#include "codegen/schedule.h"

namespace tg::fuse {

std::unordered_map<const Value*, Value*> outsideOf(const Op& fused) {
  std::unordered_map<const Value*, Value*> outside;
  for (const Operand& operand : fused.operands)
    if (operand.items[0].kind == Operand::Kind::value) outside[operand.value] = operand.items[0].value;
  const Op& yield = *fused.regions[0]->terminator();
  for (int slot = 0; fused.groups.empty() && slot < yield.numOperands(); ++slot)
    outside[yield.in(slot)] = fused.result(slot);
  return outside;
}

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

RegionWriter::RegionWriter(Module& module, Loc loc)
    : fused_(std::make_unique<Op>(Opcode::fused)), builder_(&module, &holder_) {
  holder_.kind = ItemKind::func;
  fused_->loc = loc;
  builder_.setBlock(fused_->addRegion());
  builder_.setLoc(std::move(loc));
}

Value* RegionWriter::bind(Value* outside) {
  Value*& arg = bound_[outside];
  if (arg) return arg;
  arg = fused_->regions[0]->addArg(outside->type, builder_.names().unique(outside->name));
  arg->loc = outside->loc;
  fused_->operands.push_back(Operand::binding(arg, Operand::of(outside)));
  return arg;
}

void RegionWriter::copy(const Op& op) {
  Op* made = builder_.append(cloneOp(op, here_));
  for (size_t i = 0; i < op.results.size(); ++i) here_[op.results[i].get()] = made->results[i].get();
}

std::unique_ptr<Op> RegionWriter::finish(const std::vector<Value*>& yielded,
                                         std::vector<std::unique_ptr<Value>> results, const Target& target) {
  OperandList operands;
  for (Value* value : yielded) operands.push_back(Operand::of(value));
  builder_.create(Opcode::yield, std::move(operands));
  for (auto& result : results) result->def = fused_.get();
  fused_->results = std::move(results);
  fused_->attrs.push_back({"schedule", chooseSchedule(*fused_, target)});
  return std::move(fused_);
}

}  // namespace tg::fuse
