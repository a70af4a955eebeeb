// SPDX-License-Identifier: Apache-2.0
// Finds where a function's values are defined and read, and which op commits the new value of a symbol.
#include <algorithm>

#include "ir/access.h"
#include "ir/op_view.h"
#include "passes/plan/function_plan.h"

namespace tg::plan {

/// Records where values are defined, read and committed, and which bytes collectives reduce in place.
void FunctionPlan::findReadings() {
  ops_ = func_.body.ops.all();
  for (const auto& arg : func_.body.args) facts_[arg.get()].defined = 0;
  for (int index = 0; index < static_cast<int>(ops_.size()); ++index) {
    Op& op = *ops_[index];
    for (const auto& result : op.results) {
      facts_[result.get()].defined = index;
      if (isSymbolRead(*result)) reads_[op.operands[0].text].push_back(result.get());
    }
    for (int i = 0; op.code == Opcode::all_reduce && i < op.numOperands(); ++i) {
      facts_[op.in(i)].takenOverBy = op.result(i);
      facts_[op.result(i)].source = op.in(i);
    }
    if (op.code == Opcode::update)
      if (const Op*& update = facts_[as::update(op).value()].update; !update) update = &op;
    if (op.code != Opcode::fused) {
      forEachUse(std::as_const(op), [&](Value* value) { facts_[value].readings.push_back({index, -1}); });
      continue;
    }
    for (int binding = 0; binding < op.numOperands(); ++binding)
      for (Value* value : bindingSources(op, binding)) facts_[value].readings.push_back({index, binding});
  }
  holdSources();
  findSteps();
}

/// The operand from which a region computes this result element by element, and that nothing else reads. Null if there is
/// none, or if either is a member of a group.
const Value* FunctionPlan::stepTo(const Op& op, const ResultSlot& slot, int slotIndex) const {
  if (slot.group) return nullptr;
  for (int binding = 0; binding < op.numOperands(); ++binding) {
    if (!op.operands[binding].bindsValue()) continue;
    const Value* source = bindingSources(op, binding)[0];
    const Op* def = source->def;
    if (def && def->code == Opcode::fused && def->groups.empty() &&
        source->type.bytes() == op.result(slot.first)->type.bytes() &&
        factsOf(*source).readings.size() == 1 && readsOnlyWrittenElement(op, binding, slotIndex, module_))
      return source;
  }
  return nullptr;
}

/// Finds the steps of updates, starting at the last op. A step may be in the symbol's home like the new value: the head's
/// part of a tied table's gradient is added to a sum long before the embedding's.
void FunctionPlan::findSteps() {
  for (auto op = ops_.rbegin(); op != ops_.rend(); ++op) {
    if ((*op)->code != Opcode::fused) continue;
    const std::vector<ResultSlot> slots = resultSlots(**op);
    for (size_t index = 0; index < slots.size(); ++index) {
      const Value* result = (*op)->result(slots[index].first);
      const Op* commits = factsOf(*result).update;
      const Value* step = commits ? stepTo(**op, slots[index], static_cast<int>(index)) : nullptr;
      if (!step || factsOf(*step).update) continue;
      facts_[step].update = commits;
      facts_[step].stepTo = result;
    }
  }
}

/// The first read of a value; null if nothing reads it.
const FunctionPlan::Reading* FunctionPlan::firstReading(const Value& value) const {
  const std::vector<Reading>& all = factsOf(value).readings;
  const auto first =
      std::ranges::min_element(all, [](const Reading& a, const Reading& b) { return a.op < b.op; });
  return first == all.end() ? nullptr : &*first;
}

/// Chooses the tg.reduce_scatter whose operands stay alive until one of their results is read. Lowering waits for a
/// collective in front of the first kernel that touches its bytes; if another value took an operand's bytes earlier, the
/// kernel that writes it would have to wait. Later collectives are tried first; one is chosen if the peak of live bytes
/// does not grow.
void FunctionPlan::chooseHeld() {
  std::vector<int64_t> live = liveBytes(allocations());
  if (live.empty()) return;
  const int64_t most = *std::ranges::max_element(live);
  live.resize(ops_.size());
  for (auto at = ops_.rbegin(); at != ops_.rend(); ++at) {
    const Op* op = *at;
    if (op->code != Opcode::reduce_scatter || as::reduce_scatter(*op).reduction() == "same") continue;
    std::vector<int64_t> with = live;
    for (int i = 0; i < op->numOperands(); ++i) {
      const Reading* first = firstReading(*op->result(i));
      for (int place = lifeOf(*op->in(i)).last + 1; first && place <= first->op; ++place)
        with[static_cast<size_t>(place)] += alignTo(op->in(i)->type.bytes(), target_.alignment);
    }
    if (*std::ranges::max_element(with) > most) continue;
    live = std::move(with);
    holds_.insert(op);
  }
}

/// Adds a read of each operand of a chosen tg.reduce_scatter at the first reader of its result.
void FunctionPlan::holdSources() {
  for (const Op* op : ops_)
    for (int i = 0; holds_.contains(op) && i < op->numOperands(); ++i) {
      const Reading* first = firstReading(*op->result(i));
      if (!first) continue;
      const int reader = first->op;
      held_[reader].push_back(op->in(i));
      facts_[op->in(i)].readings.push_back({reader, -1});
    }
}

}  // namespace tg::plan
