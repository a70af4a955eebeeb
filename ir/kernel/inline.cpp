// SPDX-License-Identifier: Apache-2.0
#include "ir/kernel/inline.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ir/builder.h"

namespace tg {
namespace {

/// Removes the elements of a list for which `gone` is true; `gone` starts `shift` elements into the list.
template <class List>
void removeAt(List& list, const std::vector<bool>& gone, size_t shift = 0) {
  size_t next = 0;
  auto rest = std::remove_if(list.begin(), list.end(), [&](const auto&) {
    size_t at = next++;
    return at >= shift && gone[at - shift];
  });
  list.erase(rest, list.end());
}

/// Replaces calls by the bodies of funcs. The copied body may contain calls itself; these are the next ops of the
/// block, so that no recursion is needed however deeply funcs call each other.

class Inliner {
 public:
  Inliner(const Module& module, Item& kernel, bool keepOwnVjp)
      : module_(module), build_(kernel.body), keepOwnVjp_(keepOwnVjp) {}

  void block(Block& block) {
    for (Op* op = block.ops.front(); op;) {
      if (copies_.erase(op)) rename(*op, build_.names());
      for (auto& region : op->regions) this->block(*region);
      const Item* callee = op->code == Opcode::k_call ? module_.kernelFunc(op->operands[0].text) : nullptr;
      const bool stays = !callee || (keepOwnVjp_ && find(callee->attrs, "vjp"));
      op = stays ? op->next() : expand(*op, *callee);
    }
  }

 private:
  Op* expand(Op& call, const Item& callee);
  Value* input(Op& call, const Operand& operand, const Type& type);

  const Module& module_;
  Builder build_;
  bool keepOwnVjp_;
  std::unordered_set<const Op*> copies_;  ///< copied ops whose values still have the names from their func
};

/// Replaces the call; returns the first op in its place.
Op* Inliner::expand(Op& call, const Item& callee) {
  OpList& ops = *call.list();
  Op* before = call.previous();
  std::unordered_map<const Value*, Value*> map;
  for (size_t index = 0; index < callee.body.args.size(); ++index) {
    const Value* arg = callee.body.args[index].get();
    map[arg] = input(call, call.operands[index + 1], arg->type);
  }
  for (const Op* op : callee.body.ops) {
    if (op->code == Opcode::return_) break;
    copies_.insert(ops.insert(&call, cloneOp(*op, map)));
  }
  const Op* last = callee.body.terminator();
  for (size_t index = 0; index < call.results.size(); ++index) {
    Value* value = last->operands[index].value;
    if (auto it = map.find(value); it != map.end()) value = it->second;
    call.results[index]->uses.replaceAll(value);
  }
  Op* after = call.next();
  ops.erase(&call);
  Op* first = before ? before->next() : ops.front();
  return first ? first : after;
}

/// The input of a call as a value; a literal is built as one.
Value* Inliner::input(Op& call, const Operand& operand, const Type& type) {
  if (operand.value) return operand.value;
  return literalValue(build_.setBefore(&call).setLoc(call.loc), operand, type, "literal");
}

}  // namespace

void rename(Op& op, NameTable& names) {
  for (auto& result : op.results) result->name = names.unique(result->name);
  for (auto& region : op.regions) {
    for (auto& arg : region->args) arg->name = names.unique(arg->name);
    for (Op* inner : region->ops) rename(*inner, names);
  }
}

Value* literalValue(Builder& builder, const Operand& literal, const Type& type, std::string hint) {
  return builder.setHint(std::move(hint)).create(Opcode::k_constant, {literal}, {}, {type})->result();
}

std::unique_ptr<Op> makeLoop(std::unique_ptr<Block> body, Operand from, Operand to, Operand step,
                             const OperandList& first, const Loc& loc) {
  auto op = Op::create(
      Opcode::k_for, loc,
      {Operand::binding(body->args[0].get(), std::move(from)), Operand::keyword("to", {std::move(to)})});
  if (!step.isLiteral() || step.integer != 1)
    op->operands.push_back(Operand::keyword("step", {std::move(step)}));
  OperandList carried;
  for (size_t k = 0; k < first.size(); ++k)
    carried.push_back(Operand::binding(body->args[k + 1].get(), first[k]));
  if (!carried.empty()) op->operands.push_back(Operand::keyword("iter_args", std::move(carried)));
  op->regions.push_back(std::move(body));
  return op;
}

void removeCarried(Op& op, const std::vector<bool>& gone) {
  if (!contains(gone, true)) return;
  for (auto& region : op.regions)
    if (Op* yield = region->ops.back(); yield && yield->code == Opcode::k_yield)
      removeAt(yield->operands, gone);
  if (Operand* carried = op.keyword("iter_args")) {
    removeAt(op.regions[0]->args, gone, 1);
    removeAt(carried->items, gone);
    if (carried->items.empty()) op.operands.erase(op.operands.begin() + (carried - &op.operands[0]));
  }
  if (!op.results.empty()) removeAt(op.results, gone);
}

void inlineCalls(const Module& module, Item& kernel, bool keepOwnVjp) {
  if (anyOp(kernel.body, [](const Op& op) { return op.code == Opcode::k_call; }))
    Inliner(module, kernel, keepOwnVjp).block(kernel.body);
}

}  // namespace tg
