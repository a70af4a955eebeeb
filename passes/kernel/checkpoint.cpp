// SPDX-License-Identifier: Apache-2.0
#include "passes/kernel/vjp_steps.h"

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
  Operand tripsOf(const Op& loop);
  Value* replaceIndex(Op& loop, const Operand& piece);
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

static Operand literal(int64_t number) { return Operand::literal(number); }

static bool is(const Operand& operand, int64_t number) {
  return operand.isLiteral() && operand.integer == number;
}

/// The number of trips of a loop; emits ops in front of it unless the bounds are literals.
Operand StripMiner::tripsOf(const Op& loop) {
  const auto [from, to, step] = rangeOf(loop);
  if (const int64_t known = KernelFacts::staticTrips(loop); known >= 0) return literal(known);
  Operand count = to;
  if (!is(from, 0)) {
    Operand begin = make(Opcode::k_min, {from, to}, "begin");
    count = make(Opcode::k_sub, {to, begin}, "span");
  }
  if (is(step, 1)) return count;
  Operand whole = make(Opcode::k_div, {count, step}, "whole"),
          part = make(Opcode::k_mod, {count, step}, "part");
  Operand more = make(Opcode::k_min, {part, literal(1)}, "more");
  return make(Opcode::k_add, {whole, more}, "trips");
}

/// Gives a loop's body a new index, the trip within a piece, and computes the old index from it at the front.
Value* StripMiner::replaceIndex(Op& loop, const Operand& piece) {
  const auto [from, to, step] = rangeOf(loop);
  Block& body = *loop.regions[0];
  const std::unique_ptr<Value> old = std::move(body.args[0]);
  body.args[0] = std::make_unique<Value>();
  Value* index = body.args[0].get();
  index->type = Type::scalar(DType::u32);
  index->name = build_.names().unique(old->name + "_inner");
  index->block = &body;
  build_.setEnd(body.ops).setBefore(body.ops.front());
  Operand at = make(Opcode::k_add, {piece, Operand::of(index)}, "at");
  if (!is(step, 1)) at = make(Opcode::k_mul, {at, step}, "at");
  at = make(Opcode::k_add, {from, at}, old->name);
  old->uses.replaceAll(at.value);
  return index;
}

/// Strip-mines one loop:
///
///   for k = from to(to) step(s)  →  n = trips
///                                   for c = 0 to(n) step(N):
///                                     for j = 0 to(min(N, n - c)): k = from + (c + j)·s
void StripMiner::split(Op& loop) {
  OpList& ops = *loop.list();
  NameTable& names = build_.names();
  build_.setBefore(&loop).setLoc(loop.loc);
  const Operand count = tripsOf(loop);
  const Block& body = *loop.regions[0];
  const OperandList bindings = iterArgs(loop);
  auto pieces = std::make_unique<Block>();
  Value* piece = pieces->addArg(Type::scalar(DType::u32), names.unique(body.args[0]->name + "_piece"));
  OperandList outerArgs, innerArgs;
  for (const Operand& binding : bindings) {
    Value* arg = pieces->addArg(binding.value->type, names.unique(binding.value->name + "_piece"));
    outerArgs.push_back(binding.items[0]);
    innerArgs.push_back(Operand::binding(binding.value, Operand::of(arg)));
  }
  const Operand trips = literal(trips_);
  Op* outer = ops.insert(&loop, makeLoop(std::move(pieces), literal(0), count, trips, outerArgs, loop.loc));
  OpList& outerOps = outer->regions[0]->ops;
  build_.setEnd(outerOps);
  Operand left = make(Opcode::k_sub, {count, Operand::of(piece)}, "left");
  Operand length = make(Opcode::k_min, {left, trips}, "length");

  // The inner loop is the old op.
  Value* inner = replaceIndex(loop, Operand::of(piece));
  outer->results = std::move(loop.results);
  for (auto& result : outer->results) result->def = outer;
  loop.results.clear();
  loop.operands = {Operand::binding(inner, literal(0)), Operand::keyword("to", {length}),
                   Operand::keyword("iter_args", innerArgs)};
  outerOps.push_back(ops.take(&loop));
  OperandList next;
  for (const Operand& binding : bindings)
    next.push_back(
        Operand::of(loop.addResult(binding.value->type, names.unique(binding.value->name + "_next"))));
  build_.setEnd(outerOps).create(Opcode::k_yield, std::move(next));
}

}  // namespace

void stripMine(Item& kernel, int64_t trips) {
  if (trips < UINT32_MAX) StripMiner(kernel, trips).visit(kernel.body);  // no loop makes more
}

}  // namespace tg
