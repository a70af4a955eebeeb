// SPDX-License-Identifier: Apache-2.0
#include "ir/kernel/rewrites.h"

#include "ir/builder.h"
#include "ir/kernel/kernel.h"

namespace tg {
namespace {

/// Rewrites all loops of a kernel; inner loops first.
class Watcher {
 public:
  explicit Watcher(Item& kernel)
      : build_(kernel.body), cut_(kernel.body.addArg(Type::buffer(DType::u32, 1, {1}, BufMode::inout),
                                                     build_.names().unique("cut"))) {
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

  /// Adds a carried value that holds the next index, and before `behind`, the op after the loop, a check that it has
  /// reached the limit.
  void watch(Op& loop, Op* behind) {
    Block& body = *loop.regions[0];
    NameTable& names = build_.names();
    const Type word = Type::scalar(DType::u32);
    const LoopRange range = rangeOf(loop);
    const Operand from = range.from, to = range.to, by = range.step;
    while (loop.results.size() < iterArgs(loop).size())
      loop.addResult(iterArgs(loop)[loop.results.size()].value->type, names.unique("unread"));
    build_.setLoc(loop.loc).setEnd(body.ops);
    Op* yield = yieldOf(body) ? body.ops.back() : build_.create(Opcode::k_yield, {});
    // Saturated, so that the last index does not wrap around and seem to be below the limit.
    build_.setBefore(yield).setHint("next_index");
    yield->operands.push_back(
        Operand::of(build_.create(Opcode::k_add_sat, {Operand::of(loop.operands[0].value), by})->result()));
    Value* arg = body.addArg(word, names.unique("index_so_far"));
    if (!loop.keyword("iter_args")) loop.operands.push_back(Operand::keyword("iter_args", {}));
    loop.keyword("iter_args")->items.push_back(Operand::binding(arg, from));
    Value* reached = loop.addResult(word, names.unique("reached"));

    build_.setEnd(*loop.list()).setBefore(behind).setHint("early");
    Value* early = build_.create(Opcode::k_lt, {Operand::of(reached), to})->result();
    build_.setEnd(build_.create(Opcode::k_if, {Operand::of(early)})->addRegion()->ops);
    build_.create(Opcode::k_atomic_max,
                  {Operand::literal(int64_t{1}), Operand::element(cut_, {Operand::literal(int64_t{0})})});
    build_.create(Opcode::k_yield, {});
  }

  Builder build_;
  Value* cut_;
};

}  // namespace

void watchLoops(Item& kernel) { Watcher{kernel}; }

}  // namespace tg
