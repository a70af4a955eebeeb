// SPDX-License-Identifier: Apache-2.0
#include "ir/kernel/rewrites.h"

#include "ir/builder.h"
#include "ir/kernel/expr.h"
#include "ir/kernel/inline.h"
#include "ir/kernel/semantics.h"

namespace tg {
namespace {

bool isExpanded(Opcode code) { return semantics(code).has(KernelSemantics::expanded); }

/// Replaces the ops whose row says `expanded` by their kernel form.
class Expander {
 public:
  explicit Expander(Item& kernel) : names_(kernel) {}

  void block(Block& block) {
    for (Op* op = block.ops.front(); op;) {
      Op* next = op->next();
      for (auto& region : op->regions) this->block(*region);
      if (isExpanded(op->code)) expand(*op, block.ops);
      op = next;
    }
  }

 private:
  void expand(Op& op, OpList& ops);

  NameTable names_;
};

/// Builds the function's kernel form in a scratch block and moves it to the op's place. The last op takes the
/// result's name.
void Expander::expand(Op& op, OpList& ops) {
  Block scratch;
  KernelBuilder builder(scratch);
  std::vector<KV> operands;
  for (const Operand& operand : op.operands) {
    KV x;
    if (operand.isLiteral()) {  // its type follows only from its place
      x.type = op.result()->type;
      Builder literals(scratch.ops);
      x.value = literalValue(literals, operand, x.type, "literal");
    } else {
      x.type = operand.value->type;
      x.value = operand.value;
    }
    operands.push_back(x);
  }
  KV form = lowerScalar(builder, op.info().scalar, operands);
  for (Op* made : scratch.ops) {
    made->loc = op.loc;
    for (auto& result : made->results) {
      result->loc = op.loc;
      result->name = result.get() == form.value ? op.result()->name : names_.unique(result->name);
    }
  }
  ops.splice(&op, scratch.ops, scratch.ops.front());
  op.result()->uses.replaceAll(form.value);
  ops.erase(&op);
}

}  // namespace

bool isLegal(const Op& op) { return op.code != Opcode::k_call && !isExpanded(op.code); }

void legalize(const Module* module, Item& kernel) {
  if (module) inlineCalls(*module, kernel);
  if (anyOp(kernel.body, [](const Op& op) { return !isLegal(op); })) Expander(kernel).block(kernel.body);
}

}  // namespace tg
