// SPDX-License-Identifier: Apache-2.0
#include "passes/kernel/checkpoint.h"

#include "ir/builder.h"
#include "passes/kernel/replay.h"

namespace tg {
namespace {

class StripMiner {
 public:
  StripMiner(Item& kernel, int64_t trips) : names_(kernel), trips_(trips) {}
  void visit(Block& block);

 private:
  Operand make(OpList& ops, Op* before, Opcode code, OperandList operands, std::string_view hint);
  void split(Op& loop);

  NameTable names_;
  int64_t trips_;
  Loc loc_;
};

Operand StripMiner::make(OpList& ops, Op* before, Opcode code, OperandList operands, std::string_view hint) {
  Op* op = ops.insert(before, std::make_unique<Op>(code));
  op->operands = std::move(operands);
  op->loc = loc_;
  return Operand::of(op->addResult(Type::scalar(DType::u32), names_.unique(hint)));
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
  loc_ = loop.loc;
  const Operand from = loop.operands[0].items[0], to = loop.keyword("to")->items[0];
  const Operand* by = loop.keyword("step");
  const Operand step = by ? by->items[0] : Operand::literal(int64_t{1});
  auto lit = [](int64_t value) { return Operand::literal(value); };
  Operand count = lit(KernelFacts::staticTrips(loop));
  if (count.integer < 0) {
    bool atZero = from.isLiteral() && from.integer == 0, byOne = step.isLiteral() && step.integer == 1;
    count = to;
    if (!atZero) {
      Operand above = make(ops, &loop, Opcode::k_max, {from, to}, "end");
      count = make(ops, &loop, Opcode::k_sub, {above, from}, "span");
    }
    if (!byOne) {
      Operand whole = make(ops, &loop, Opcode::k_div, {count, step}, "whole"),
              part = make(ops, &loop, Opcode::k_mod, {count, step}, "part");
      Operand more = make(ops, &loop, Opcode::k_min, {part, lit(1)}, "more");
      count = make(ops, &loop, Opcode::k_add, {whole, more}, "trips");
    }
  }
  Block& body = *loop.regions[0];
  const OperandList bindings = iterArgs(loop);
  Op* outer = ops.insert(&loop, std::make_unique<Op>(Opcode::k_for));
  outer->loc = loc_;
  Block* outerBody = outer->addRegion();
  Value* piece = outerBody->addArg(Type::scalar(DType::u32), names_.unique(body.args[0]->name + "_piece"));
  OperandList outerArgs, innerArgs;
  for (const Operand& binding : bindings) {
    Value* arg = outerBody->addArg(binding.value->type, names_.unique(binding.value->name + "_piece"));
    outerArgs.push_back(Operand::binding(arg, binding.items[0]));
    innerArgs.push_back(Operand::binding(binding.value, Operand::of(arg)));
  }
  outer->operands = {Operand::binding(piece, lit(0)), Operand::keyword("to", {count}),
                     Operand::keyword("step", {lit(trips_)}), Operand::keyword("iter_args", outerArgs)};
  Operand left = make(outerBody->ops, nullptr, Opcode::k_sub, {count, Operand::of(piece)}, "left");
  Operand length = make(outerBody->ops, nullptr, Opcode::k_min, {left, lit(trips_)}, "length");

  // The inner loop is the old op with a new index; its body finds the old one in front.
  std::unique_ptr<Value> oldIndex = std::move(body.args[0]);
  body.args[0] = std::make_unique<Value>();
  Value* inner = body.args[0].get();
  inner->type = Type::scalar(DType::u32);
  inner->name = names_.unique(oldIndex->name + "_inner");
  inner->block = &body;
  Op* first = body.ops.front();
  Operand at = make(body.ops, first, Opcode::k_add, {Operand::of(piece), Operand::of(inner)}, "at");
  if (!(step.isLiteral() && step.integer == 1)) at = make(body.ops, first, Opcode::k_mul, {at, step}, "at");
  at = make(body.ops, first, Opcode::k_add, {from, at}, oldIndex->name);
  oldIndex->uses.replaceAll(at.value);
  outer->results = std::move(loop.results);
  for (auto& result : outer->results) result->def = outer;
  loop.results.clear();
  loop.operands = {Operand::binding(inner, lit(0)), Operand::keyword("to", {length}),
                   Operand::keyword("iter_args", innerArgs)};
  outerBody->ops.push_back(ops.take(&loop));
  Op* yield = outerBody->ops.push_back(std::make_unique<Op>(Opcode::k_yield));
  yield->loc = loc_;
  for (const Operand& binding : bindings)
    yield->operands.push_back(
        Operand::of(loop.addResult(binding.value->type, names_.unique(binding.value->name + "_next"))));
}

}  // namespace

void stripMine(Item& kernel, int64_t trips) { StripMiner(kernel, trips).visit(kernel.body); }

}  // namespace tg
