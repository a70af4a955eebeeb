// SPDX-License-Identifier: Apache-2.0
#include "passes/kernel/vjp_steps.h"

#include <fmt/format.h>

#include <algorithm>

#include "passes/kernel/effects.h"

namespace tg {
namespace {

using Values = std::unordered_set<const Value*>;

/// A graph of the values and buffers into which each value flows.
class ValueFlow {
 public:
  explicit ValueFlow(const Block& body) { visit(body); }
  Values after(const Value* from) const { return reach(next_, {from}); }
  bool passes(const Value* from, const Value* to) const {
    const auto* before = valueIn(last_, to);
    return before && contains(*before, from);
  }
  Values before(const std::vector<const Value*>& to) const { return reach(last_, to); }

 private:
  using Edges = std::unordered_map<const Value*, std::vector<const Value*>>;

  void visit(const Block& block);
  void visitOp(const Op& op);
  void add(const Operand& from, const Value* to) {
    if (!from.value) return;
    next_[from.value].push_back(to);
    last_[to].push_back(from.value);
  }
  static Values reach(const Edges& edges, const std::vector<const Value*>& start);

  Edges next_, last_;
};

Values ValueFlow::reach(const Edges& edges, const std::vector<const Value*>& start) {
  Values seen(start.begin(), start.end());
  std::vector<const Value*> open = start;
  while (!open.empty()) {
    const auto* next = valueIn(edges, open.back());
    open.pop_back();
    if (!next) continue;
    for (const Value* value : *next)
      if (seen.insert(value).second) open.push_back(value);
  }
  return seen;
}

void ValueFlow::visit(const Block& block) {
  for (Op* op : block.ops) {
    for (const auto& region : op->regions) visit(*region);
    visitOp(*op);
  }
}

void ValueFlow::visitOp(const Op& op) {
  if (eachFlow(op, [&](const Operand& from, const Value* to) { add(from, to); })) return;
  if (op.code == Opcode::k_stop_gradient) return;
  for (const auto& result : op.results)
    for (const Operand& operand : op.operands)
      if (operand.kind == Operand::Kind::value && operand.value->type.dtype != DType::i1 &&
          result->type.dtype != DType::i1)
        add(operand, result.get());
}

}  // namespace

std::vector<Diagnostic> findCuts(const Item& kernel, const Activity& activity,
                                 const std::vector<const Value*>& wrt, const std::vector<const Value*>& of) {
  ValueFlow flow(kernel.body);
  Values useful = flow.before(of);
  std::vector<const Op*> cuts;
  walk(kernel.body, [&](Op& op) {
    if (op.results.size() != 1 || elementOf(op) || !op.regions.empty()) return;
    const Value* result = op.result();
    auto passes = [&](const Operand& operand) {
      return operand.kind == Operand::Kind::value && activity.varied(operand.value) &&
             flow.passes(operand.value, result);
    };
    if (!activity.varied(result) && useful.contains(result) && std::ranges::any_of(op.operands, passes))
      cuts.push_back(&op);
  });
  std::vector<Diagnostic> out;
  auto remark = [&](const Op& op, const std::string& consequence) {
    out.push_back(
        {Severity::remark,
         op.loc,
         fmt::format("kernel @{}: no gradient passes this {}{}; write tgk.stop_gradient if this is intended",
                     kernel.name, op.info().name, consequence),
         {}});
  };
  std::unordered_set<const Op*> told;
  for (const Value* param : wrt) {
    if (activity.active(param)) continue;
    Values after = flow.after(param);
    auto cut = std::ranges::find_if(cuts, [&](const Op* op) {
      return std::ranges::any_of(op->operands,
                                 [&](const Operand& operand) { return after.contains(operand.value); });
    });
    if (cut == cuts.end()) continue;
    told.insert(*cut);
    remark(**cut, fmt::format(", so %{} gets none", param->name));
  }
  for (const Op* op : cuts)
    if (op->code == Opcode::k_bitcast && !told.contains(op)) remark(*op, "");
  return out;
}

}  // namespace tg
