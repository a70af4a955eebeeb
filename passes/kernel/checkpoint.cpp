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
  using Ops = std::vector<std::unique_ptr<Op>>;
  Operand make(Ops& ops, Opcode code, std::vector<Operand> operands, std::string_view hint,
               DType dtype = DType::u32);
  void split(Ops& out, std::unique_ptr<Op> loop);

  NameTable names_;
  int64_t trips_;
  Loc loc_;
};

Operand StripMiner::make(Ops& ops, Opcode code, std::vector<Operand> operands, std::string_view hint,
                         DType dtype) {
  auto op = std::make_unique<Op>(code);
  op->operands = std::move(operands);
  op->loc = loc_;
  auto value = std::make_unique<Value>();
  value->type = Type::scalar(dtype);
  value->name = names_.unique(hint);
  value->def = op.get();
  value->loc = loc_;
  op->results.push_back(std::move(value));
  ops.push_back(std::move(op));
  return Operand::of(ops.back()->result());
}

void StripMiner::visit(Block& block) {
  Ops out;
  for (auto& op : block.ops) {
    for (auto& region : op->regions) visit(*region);
    int64_t known = op->code == Opcode::k_for ? KernelFacts::staticTrips(*op) : 0;
    bool isLong = op->code == Opcode::k_for && !iterArgs(*op).empty() && (known < 0 || known > trips_);
    if (isLong)
      split(out, std::move(op));
    else
      out.push_back(std::move(op));
  }
  block.ops = std::move(out);
}

/// for k = from to(to) step(s)  →  n = trips; for c = 0 to(n) step(N): for j = 0 to(min(N, n - c)): k = from
/// + (c + j)·s
void StripMiner::split(Ops& out, std::unique_ptr<Op> loop) {
  loc_ = loop->loc;
  const Operand from = loop->operands[0].items[0], to = loop->keyword("to")->items[0];
  const Operand* by = loop->keyword("step");
  const Operand step = by ? by->items[0] : Operand::literal(int64_t{1});
  auto lit = [](int64_t value) { return Operand::literal(value); };
  Operand count = lit(KernelFacts::staticTrips(*loop));
  if (count.integer < 0) {
    bool atZero = from.isLiteral() && from.integer == 0, byOne = step.isLiteral() && step.integer == 1;
    count = to;
    if (!atZero) {
      Operand above = make(out, Opcode::k_max, {from, to}, "end");
      count = make(out, Opcode::k_sub, {above, from}, "span");
    }
    if (!byOne) {
      Operand whole = make(out, Opcode::k_div, {count, step}, "whole"),
              part = make(out, Opcode::k_mod, {count, step}, "part");
      Operand more = make(out, Opcode::k_min, {part, lit(1)}, "more");
      count = make(out, Opcode::k_add, {whole, more}, "trips");
    }
  }
  Block& body = *loop->regions[0];
  const std::vector<Operand> bindings = iterArgs(*loop);
  auto outer = std::make_unique<Op>(Opcode::k_for);
  outer->loc = loc_;
  auto outerBody = std::make_unique<Block>();
  Value* piece = outerBody->addArg(Type::scalar(DType::u32), names_.unique(body.args[0]->name + "_piece"));
  std::vector<Operand> outerArgs, innerArgs;
  for (const Operand& binding : bindings) {
    Value* arg = outerBody->addArg(binding.value->type, names_.unique(binding.value->name + "_piece"));
    outerArgs.push_back(Operand::binding(arg, binding.items[0]));
    innerArgs.push_back(Operand::binding(binding.value, Operand::of(arg)));
  }
  outer->operands = {Operand::binding(piece, lit(0)), Operand::keyword("to", {count}),
                     Operand::keyword("step", {lit(trips_)}), Operand::keyword("iter_args", outerArgs)};
  Operand left = make(outerBody->ops, Opcode::k_sub, {count, Operand::of(piece)}, "left");
  Operand length = make(outerBody->ops, Opcode::k_min, {left, lit(trips_)}, "length");

  // The inner loop is the old op with a new index; its body finds the old one in front.
  std::unique_ptr<Value> oldIndex = std::move(body.args[0]);
  body.args[0] = std::make_unique<Value>();
  Value* inner = body.args[0].get();
  inner->type = Type::scalar(DType::u32);
  inner->name = names_.unique(oldIndex->name + "_inner");
  inner->block = &body;
  Ops head;
  Operand at = make(head, Opcode::k_add, {Operand::of(piece), Operand::of(inner)}, "at");
  if (!(step.isLiteral() && step.integer == 1)) at = make(head, Opcode::k_mul, {at, step}, "at");
  at = make(head, Opcode::k_add, {from, at}, oldIndex->name);
  for (auto& op : body.ops) {
    auto fix = [&](Op& each) {
      forEachUse(each, [&](Value*& value) {
        if (value == oldIndex.get()) value = at.value;
      });
    };
    fix(*op);
    for (auto& region : op->regions) walk(*region, fix);
  }
  body.ops.insert(body.ops.begin(), std::make_move_iterator(head.begin()),
                  std::make_move_iterator(head.end()));
  std::vector<std::unique_ptr<Value>> results = std::move(loop->results);
  loop->operands = {Operand::binding(inner, lit(0)), Operand::keyword("to", {length}),
                    Operand::keyword("iter_args", innerArgs)};
  auto yield = std::make_unique<Op>(Opcode::k_yield);
  yield->loc = loc_;
  loop->results.clear();
  for (const Operand& binding : bindings) {
    auto value = std::make_unique<Value>();
    value->type = binding.value->type;
    value->name = names_.unique(binding.value->name + "_next");
    value->def = loop.get();
    yield->operands.push_back(Operand::of(value.get()));
    loop->results.push_back(std::move(value));
  }
  outerBody->ops.push_back(std::move(loop));
  outerBody->ops.push_back(std::move(yield));
  outer->regions.push_back(std::move(outerBody));
  outer->results = std::move(results);
  for (auto& result : outer->results) result->def = outer.get();
  out.push_back(std::move(outer));
}

}  // namespace

void stripMine(Item& kernel, int64_t trips) { StripMiner(kernel, trips).visit(kernel.body); }

}  // namespace tg
