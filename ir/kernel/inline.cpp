// SPDX-License-Identifier: Apache-2.0
#include "ir/kernel/inline.h"

#include <unordered_map>
#include <utility>

#include "ir/builder.h"
#include "ir/kernel/kernel.h"

namespace tg {
namespace {

using Ops = std::vector<std::unique_ptr<Op>>;

/// A func in the place of a call: the ops from `next` on are still to come.
struct Expansion {
  std::unique_ptr<Op> call;
  const Item* callee = nullptr;
  std::unordered_map<const Value*, Value*> map;  ///< of the func's values, those in the kernel
  size_t next = 0;
};

class Inliner {
 public:
  Inliner(const Module& module, Item& kernel, bool keepOwnVjp)
      : module_(module), names_(kernel), keepOwnVjp_(keepOwnVjp) {}

  /// Rebuilds a block op by op. Funcs that call each other are open together, without recursion over them.
  void block(Block& block) {
    Ops before = std::exchange(block.ops, {});
    std::vector<Expansion> open;
    for (auto& op : before) {
      emit(std::move(op), block.ops, open);
      while (!open.empty()) advance(block.ops, open);
    }
  }

 private:
  void emit(std::unique_ptr<Op> op, Ops& out, std::vector<Expansion>& open);
  Expansion begin(std::unique_ptr<Op> call, const Item& callee, Ops& out);
  void advance(Ops& out, std::vector<Expansion>& open);
  void finish(Expansion done);
  Value* input(const Op& call, const Operand& operand, const Type& type, Ops& out);

  const Module& module_;
  NameTable names_;
  bool keepOwnVjp_;
  std::unordered_map<const Value*, Value*> results_;  ///< of calls that are gone
  Ops gone_;  ///< those calls: their results' addresses stay taken while results_ knows them
};

void Inliner::emit(std::unique_ptr<Op> op, Ops& out, std::vector<Expansion>& open) {
  forEachUse(*op, [&](Value*& value) {
    if (auto it = results_.find(value); it != results_.end()) value = it->second;
  });
  const Item* callee = op->code == Opcode::k_call ? module_.kernelFunc(op->operands[0].text) : nullptr;
  if (callee && !(keepOwnVjp_ && find(callee->attrs, "vjp"))) {
    open.push_back(begin(std::move(op), *callee, out));
    return;
  }
  for (auto& region : op->regions) block(*region);
  out.push_back(std::move(op));
}

Expansion Inliner::begin(std::unique_ptr<Op> call, const Item& callee, Ops& out) {
  Expansion expansion{std::move(call), &callee, {}, 0};
  for (size_t index = 0; index < callee.body.args.size(); ++index) {
    const Value* arg = callee.body.args[index].get();
    expansion.map[arg] = input(*expansion.call, expansion.call->operands[index + 1], arg->type, out);
  }
  return expansion;
}

/// Emits the next op of the innermost open func, or closes it.
void Inliner::advance(Ops& out, std::vector<Expansion>& open) {
  Expansion& innermost = open.back();
  const Op& op = *innermost.callee->body.ops[innermost.next++];
  if (op.code == Opcode::return_) {
    Expansion done = std::move(innermost);
    open.pop_back();
    return finish(std::move(done));
  }
  auto copy = cloneOp(op, innermost.map);
  rename(*copy, names_);
  emit(std::move(copy), out, open);
}

void Inliner::finish(Expansion done) {
  const Op* last = done.callee->body.terminator();
  for (size_t index = 0; index < done.call->results.size(); ++index) {
    Value* value = last->operands[index].value;
    if (auto it = done.map.find(value); it != done.map.end()) value = it->second;
    if (auto it = results_.find(value); it != results_.end()) value = it->second;
    results_[done.call->result(static_cast<int>(index))] = value;
  }
  gone_.push_back(std::move(done.call));
}

/// The value of a call's input.
Value* Inliner::input(const Op& call, const Operand& operand, const Type& type, Ops& out) {
  if (operand.value) return operand.value;
  out.push_back(literalValue(operand, type, names_.unique("literal"), call.loc));
  return out.back()->result();
}

}  // namespace

void rename(Op& op, NameTable& names) {
  for (auto& result : op.results) result->name = names.unique(result->name);
  for (auto& region : op.regions) {
    for (auto& arg : region->args) arg->name = names.unique(arg->name);
    for (auto& inner : region->ops) rename(*inner, names);
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
  auto value = std::make_unique<Value>();
  value->type = type;
  value->name = std::move(name);
  value->def = op.get();
  value->loc = loc;
  op->results.push_back(std::move(value));
  return op;
}

void inlineCalls(const Module& module, Item& kernel, bool keepOwnVjp) {
  bool calls = false;
  walk(kernel.body, [&](const Op& op) { calls = calls || op.code == Opcode::k_call; });
  if (!calls) return;
  Inliner(module, kernel, keepOwnVjp).block(kernel.body);
}

}  // namespace tg
