// SPDX-License-Identifier: Apache-2.0
#include "ir/kernel/watch_loops.h"

#include <memory>
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "ir/kernel/kernel.h"

namespace tg {
namespace {

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
    for (Op* op = block.ops.front(); op;) {
      Op* next = op->next();
      for (auto& region : op->regions) this->block(*region);
      if (op->code == Opcode::k_for) watch(*op, next);
      op = next;
    }
  }

  /// A carried value that is the next index in each trip, and between the loop and `behind` a look whether it
  /// has reached what it must.
  void watch(Op& loop, Op* behind) {
    Block& body = *loop.regions[0];
    const Operand from = loop.operands[0].items[0], to = loop.keyword("to")->items[0];
    const Operand* step = loop.keyword("step");
    const Operand by = step ? step->items[0] : Operand::literal(int64_t{1});
    while (loop.results.size() < iterArgs(loop).size())
      result(loop, iterArgs(loop)[loop.results.size()].value->type, "unread");
    if (!yieldOf(body)) make(Opcode::k_yield, {}, loop.loc, body.ops, nullptr);
    Op* yield = body.ops.back();
    // Saturated, so that the last index does not wrap around and look as if it were below the limit.
    Op& next = make(Opcode::k_add_sat, {Operand::of(loop.operands[0].value), by}, loop.loc, body.ops, yield);
    yield->operands.push_back(Operand::of(result(next, Type::scalar(DType::u32), "next_index")));
    Value* arg = body.addArg(Type::scalar(DType::u32), names_.unique("index_so_far"));
    if (iterArgs(loop).empty()) loop.operands.push_back(Operand::keyword("iter_args", {}));
    for (Operand& operand : loop.operands)
      if (operand.kind == Operand::Kind::keyword && operand.text == "iter_args")
        operand.items.push_back(Operand::binding(arg, from));
    Value* reached = result(loop, Type::scalar(DType::u32), "reached");

    Op& less = make(Opcode::k_lt, {Operand::of(reached), to}, loop.loc, *loop.list(), behind);
    Value* early = result(less, Type::scalar(DType::i1), "early");
    Op& guard = make(Opcode::k_if, {Operand::of(early)}, loop.loc, *loop.list(), behind);
    OpList& inside = guard.addRegion()->ops;
    make(Opcode::k_atomic_max,
         {Operand::literal(int64_t{1}), Operand::element(cut_, {Operand::literal(int64_t{0})})}, loop.loc,
         inside, nullptr);
    make(Opcode::k_yield, {}, loop.loc, inside, nullptr);
  }

  static Op& make(Opcode code, OperandList operands, const Loc& loc, OpList& ops, Op* before) {
    Op* op = ops.insert(before, std::make_unique<Op>(code));
    op->operands = std::move(operands);
    op->loc = loc;
    return *op;
  }

  Value* result(Op& op, const Type& type, std::string_view hint) {
    return op.addResult(type, names_.unique(hint));
  }

  NameTable names_;
  Value* cut_;
};

}  // namespace

void watchLoops(Item& kernel) { Watcher{kernel}; }

}  // namespace tg
