// SPDX-License-Identifier: Apache-2.0
#include "passes/fuse/kernel_edits.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "ir/access.h"
#include "ir/schedule.h"
#include "ir/unread.h"
#include "passes/fuse/region_writer.h"

namespace tg::fuse {

const Value* argFor(const Op& op, const Value& value) {
  if (op.code != Opcode::fused) return nullptr;
  for (const Operand& operand : op.operands)
    if (operand.bindsValue() && operand.items[0].value == &value) return operand.value;
  return nullptr;
}

bool takesMaps(const Op& op) {
  if (op.code != Opcode::fused || !op.groups.empty()) return false;
  const Schedule schedule = scheduleOf(op);
  return !std::holds_alternative<CustomSchedule>(schedule) &&
         !std::holds_alternative<AttentionSchedule>(schedule);
}

bool isPlain(const Op& op) {
  return takesMaps(op) && std::ranges::all_of(op.operands, std::mem_fn(&Operand::bindsValue));
}

bool isElementwise(const Op& op) { return keepsElements(op) && op.code != Opcode::dropout; }

bool readsByElement(const Op& op, const Value& arg) {
  return takesMaps(op) && std::ranges::all_of(arg.uses, [&](const Use& use) {
           const Op& inner = *use.user();
           if (inner.code == Opcode::sum) return true;
           return inner.code != Opcode::yield && isElementwise(inner) &&
                  inner.result()->type.elements() == arg.type.elements();
         });
}

bool isFactor(const Value& value) {
  return std::ranges::any_of(value.uses, [](const Use& use) {
    const Op& user = *use.user();
    if (user.info().has(table::view) || user.code == Opcode::cast) return isFactor(*user.result());
    using enum table::Fusion;
    const table::Fusion fusion = user.info().fusion;
    return fusion == contraction || fusion == window || fusion == attention || fusion == scatter ||
           fusion == custom;
  });
}

/// Moves the contents of `made` into `op`, which keeps its identity: maps keyed by the op stay valid.
static void become(Op& op, std::unique_ptr<Op> made) {
  op.operands = std::move(made->operands);
  op.attrs = std::move(made->attrs);
  op.regions = std::move(made->regions);
  op.results = std::move(made->results);
  for (auto& result : op.results) result->def = &op;
}

void computeArg(Op& reader, const Value* arg, const Op& from, const Slice& slice, const Value* inner,
                const Target& target) {
  const std::unordered_map<const Value*, Value*> outside = outsideOf(from);
  RegionWriter writer(reader.loc);
  for (const Operand& operand : reader.operands)
    if (operand.value != arg) writer.define(operand.value, writer.bind(operand.items[0], *operand.value));
  for (const Value* leaf : slice.leaves) writer.define(leaf, writer.bind(outside.at(leaf)));
  for (const Op* op : slice.ops) writer.copy(*op);
  writer.define(arg, writer.here(inner));
  const std::vector<Value*> yielded = writer.copyBody(reader);
  become(reader, writer.finish(yielded, std::move(reader.results), target));
}

void dropResult(Op& fused, int slot, const Target& target) {
  OpList& body = fused.regions[0]->ops;
  Op* yield = body.back();
  yield->operands.erase(yield->operands.begin() + slot);
  eraseUnread(body);
  RegionWriter writer(fused.loc);
  for (const Operand& operand : fused.operands)
    if (!operand.value->uses.empty()) writer.define(operand.value, writer.bind(operand.items[0].value));
  const std::vector<Value*> yielded = writer.copyBody(fused);
  fused.results.erase(fused.results.begin() + slot);
  become(fused, writer.finish(yielded, std::move(fused.results), target));
}

}  // namespace tg::fuse
