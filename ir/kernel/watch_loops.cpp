// SPDX-License-Identifier: Apache-2.0
#include "ir/kernel/watch_loops.h"

#include <memory>
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "ir/kernel/kernel.h"

namespace tg {
namespace {

using Ops = std::vector<std::unique_ptr<Op>>;

class Watcher {
 public:
  explicit Watcher(Item& kernel)
      : names_(kernel),
        cut_(kernel.body.addArg(Type::buffer(DType::u32, 1, {1}, BufMode::inout), names_.unique("cut"))) {
    cut_->loc = kernel.loc;
    block(kernel.body);
  }

 private:
  void block(Block& block) {
    Ops out;
    for (auto& op : block.ops) {
      for (auto& region : op->regions) this->block(*region);
      Op& each = *op;
      out.push_back(std::move(op));
      if (each.code == Opcode::k_for) watch(each, out);
    }
    block.ops = std::move(out);
  }

  /// A carried value that is the next index in each trip, and behind the loop what it must have reached.
  void watch(Op& loop, Ops& out) {
    Block& body = *loop.regions[0];
    const Operand from = loop.operands[0].items[0], to = loop.keyword("to")->items[0];
    const Operand* step = loop.keyword("step");
    const Operand by = step ? step->items[0] : Operand::literal(int64_t{1});
    while (loop.results.size() < iterArgs(loop).size())
      result(loop, iterArgs(loop)[loop.results.size()].value->type, "unread");
    std::unique_ptr<Op> yield = takeYield(body, loop.loc);
    // Saturated, so that the last index does not wrap around and look as if it were below the limit.
    Op& next = make(Opcode::k_add_sat, {Operand::of(loop.operands[0].value), by}, loop.loc, body.ops);
    yield->operands.push_back(Operand::of(result(next, Type::scalar(DType::u32), "next_index")));
    body.ops.push_back(std::move(yield));
    Value* arg = body.addArg(Type::scalar(DType::u32), names_.unique("index_so_far"));
    if (iterArgs(loop).empty()) loop.operands.push_back(Operand::keyword("iter_args", {}));
    for (Operand& operand : loop.operands)
      if (operand.kind == Operand::Kind::keyword && operand.text == "iter_args")
        operand.items.push_back(Operand::binding(arg, from));
    Value* reached = result(loop, Type::scalar(DType::u32), "reached");

    Op& less = make(Opcode::k_lt, {Operand::of(reached), to}, loop.loc, out);
    Value* early = result(less, Type::scalar(DType::i1), "early");
    Op& guard = make(Opcode::k_if, {Operand::of(early)}, loop.loc, out);
    guard.regions.push_back(std::make_unique<Block>());
    Ops& inside = guard.regions[0]->ops;
    make(Opcode::k_atomic_max,
         {Operand::literal(int64_t{1}), Operand::element(cut_, {Operand::literal(int64_t{0})})}, loop.loc,
         inside);
    make(Opcode::k_yield, {}, loop.loc, inside);
  }

  static std::unique_ptr<Op> takeYield(Block& body, const Loc& loc) {
    if (!yieldOf(body)) {
      auto made = std::make_unique<Op>(Opcode::k_yield);
      made->loc = loc;
      return made;
    }
    std::unique_ptr<Op> yield = std::move(body.ops.back());
    body.ops.pop_back();
    return yield;
  }

  static Op& make(Opcode code, std::vector<Operand> operands, const Loc& loc, Ops& out) {
    out.push_back(std::make_unique<Op>(code));
    out.back()->operands = std::move(operands);
    out.back()->loc = loc;
    return *out.back();
  }

  Value* result(Op& op, const Type& type, std::string_view hint) {
    auto value = std::make_unique<Value>();
    value->type = type;
    value->name = names_.unique(hint);
    value->def = &op;
    value->loc = op.loc;
    op.results.push_back(std::move(value));
    return op.results.back().get();
  }

  NameTable names_;
  Value* cut_;
};

}  // namespace

void watchLoops(Item& kernel) { Watcher{kernel}; }

}  // namespace tg
