// SPDX-License-Identifier: Apache-2.0
#include "ir/kernel/inline.h"

#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "ir/builder.h"
#include "ir/kernel/kernel.h"

namespace tg {
namespace {

/// Puts the bodies of funcs into the places of their calls. A copy may hold calls itself, which are next in
/// the block then: funcs that call each other need no recursion.

class Inliner {
 public:
  Inliner(const Module& module, Item& kernel, bool keepOwnVjp)
      : module_(module), names_(kernel), keepOwnVjp_(keepOwnVjp) {}

  void block(Block& block) {
    for (Op* op = block.ops.front(); op;) {
      if (copies_.erase(op)) rename(*op, names_);
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
  NameTable names_;
  bool keepOwnVjp_;
  std::unordered_set<const Op*> copies_;  ///< which still have the names of their funcs
};

/// Returns the first op that stands in the call's place.
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

/// The value of a call's input.
Value* Inliner::input(Op& call, const Operand& operand, const Type& type) {
  if (operand.value) return operand.value;
  return call.list()
      ->insert(&call, literalValue(operand, type, names_.unique("literal"), call.loc))
      ->result();
}

}  // namespace

void rename(Op& op, NameTable& names) {
  for (auto& result : op.results) result->name = names.unique(result->name);
  for (auto& region : op.regions) {
    for (auto& arg : region->args) arg->name = names.unique(arg->name);
    for (Op* inner : region->ops) rename(*inner, names);
  }
}

std::unique_ptr<Op> literalValue(const Operand& literal, const Type& type, std::string name, const Loc& loc) {
  Opcode code = type.lanes > 1            ? Opcode::k_vec
                : type.dtype == DType::i1 ? Opcode::k_and
                                          : Opcode::k_stop_gradient;
  auto op = std::make_unique<Op>(code);
  op->loc = loc;
  op->operands = {literal};
  if (code == Opcode::k_and) op->operands.push_back(literal);
  op->addResult(type, std::move(name));
  return op;
}

void inlineCalls(const Module& module, Item& kernel, bool keepOwnVjp) {
  bool calls = false;
  walk(kernel.body, [&](const Op& op) { calls = calls || op.code == Opcode::k_call; });
  if (!calls) return;
  Inliner(module, kernel, keepOwnVjp).block(kernel.body);
}

}  // namespace tg
