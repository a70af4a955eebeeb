// SPDX-License-Identifier: Apache-2.0
#include "passes/kernel/checkpoint.h"

#include "ir/builder.h"
#include "ir/kernel/inline.h"
#include "passes/kernel/replay.h"

namespace tg {
namespace {

class StripMiner {
 public:
  StripMiner(Item& kernel, int64_t trips) : build_(kernel.body), trips_(trips) {}
  void visit(Block& block);

 private:
  Operand make(Opcode code, OperandList operands, std::string hint);
  void split(Op& loop);

  Builder build_;
  int64_t trips_;
};

Operand StripMiner::make(Opcode code, OperandList operands, std::string hint) {
  build_.setHint(std::move(hint));
  return Operand::of(build_.create(code, std::move(operands), {}, {Type::scalar(DType::u32)})->result());
}

void StripMiner::visit(Block& block) {
  for (Op *op = block.ops.front(), *next = nullptr; op; op = next) {
    next = op->next();
    for (auto& region : op->regions) visit(*region);
    int64_t known = op->code == Opcode::k_for ? KernelFacts::staticTrips(*op) : 0;
    bool isLong = op->code == Opcode::k_for && !iterArgs(*op).empty() && (known < 0 || known > trips_);
    if (isLong) split(*op);
  }
}

/// for k = from to(to) step(s)  →  n = trips; for c = 0 to(n) step(N): for j = 0 to(min(N, n - c)): k = from
/// + (c + j)·s
void StripMiner::split(Op& loop) {
  OpList& ops = *loop.list();
  NameTable& names = build_.names();
  build_.setBefore(&loop).setLoc(loop.loc);
  const LoopRange range = rangeOf(loop);
  const Operand from = range.from, to = range.to, step = range.step;
  auto lit = [](int64_t value) { return Operand::literal(value); };
  Operand count = lit(KernelFacts::staticTrips(loop));
  if (count.integer < 0) {
    bool atZero = from.isLiteral() && from.integer == 0, byOne = step.isLiteral() && step.integer == 1;
    count = to;
    if (!atZero) {
      Operand above = make(Opcode::k_max, {from, to}, "end");
      count = make(Opcode::k_sub, {above, from}, "span");
    }
    if (!byOne) {
      Operand whole = make(Opcode::k_div, {count, step}, "whole"),
              part = make(Opcode::k_mod, {count, step}, "part");
      Operand more = make(Opcode::k_min, {part, lit(1)}, "more");
      count = make(Opcode::k_add, {whole, more}, "trips");
    }
  }
  Block& body = *loop.regions[0];
  const OperandList bindings = iterArgs(loop);
  auto pieces = std::make_unique<Block>();
  Value* piece = pieces->addArg(Type::scalar(DType::u32), names.unique(body.args[0]->name + "_piece"));
  OperandList outerArgs, innerArgs;
  for (const Operand& binding : bindings) {
    Value* arg = pieces->addArg(binding.value->type, names.unique(binding.value->name + "_piece"));
    outerArgs.push_back(binding.items[0]);
    innerArgs.push_back(Operand::binding(binding.value, Operand::of(arg)));
  }
  Op* outer = ops.insert(&loop, makeLoop(std::move(pieces), lit(0), count, lit(trips_), outerArgs, loop.loc));
  OpList& outerOps = outer->regions[0]->ops;
  build_.setEnd(outerOps);
  Operand left = make(Opcode::k_sub, {count, Operand::of(piece)}, "left");
  Operand length = make(Opcode::k_min, {left, lit(trips_)}, "length");

  // The inner loop is the old op with a new index; its body finds the old one in front.
  std::unique_ptr<Value> oldIndex = std::move(body.args[0]);
  body.args[0] = std::make_unique<Value>();
  Value* inner = body.args[0].get();
  inner->type = Type::scalar(DType::u32);
  inner->name = names.unique(oldIndex->name + "_inner");
  inner->block = &body;
  build_.setEnd(body.ops).setBefore(body.ops.front());
  Operand at = make(Opcode::k_add, {Operand::of(piece), Operand::of(inner)}, "at");
  if (!(step.isLiteral() && step.integer == 1)) at = make(Opcode::k_mul, {at, step}, "at");
  at = make(Opcode::k_add, {from, at}, oldIndex->name);
  oldIndex->uses.replaceAll(at.value);
  outer->results = std::move(loop.results);
  for (auto& result : outer->results) result->def = outer;
  loop.results.clear();
  loop.operands = {Operand::binding(inner, lit(0)), Operand::keyword("to", {length}),
                   Operand::keyword("iter_args", innerArgs)};
  outerOps.push_back(ops.take(&loop));
  OperandList next;
  for (const Operand& binding : bindings)
    next.push_back(
        Operand::of(loop.addResult(binding.value->type, names.unique(binding.value->name + "_next"))));
  build_.setEnd(outerOps).create(Opcode::k_yield, std::move(next));
}

}  // namespace

void stripMine(Item& kernel, int64_t trips) { StripMiner(kernel, trips).visit(kernel.body); }

}  // namespace tg
