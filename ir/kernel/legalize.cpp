// SPDX-License-Identifier: Apache-2.0
#include "ir/kernel/legalize.h"

#include <utility>

#include "ir/builder.h"
#include "ir/kernel/expr.h"
#include "ir/kernel/inline.h"
#include "ir/kernel/kernel.h"

namespace tg {
namespace {

bool isExpanded(Opcode code) {
  switch (code) {
  case Opcode::k_round:
  case Opcode::k_sin:
  case Opcode::k_cos:
  case Opcode::k_tan:
  case Opcode::k_asin:
  case Opcode::k_acos:
  case Opcode::k_atan:
  case Opcode::k_atan2:
  case Opcode::k_log1p:
  case Opcode::k_expm1:
  case Opcode::k_sinh:
  case Opcode::k_cosh:
  case Opcode::k_tanh:
  case Opcode::k_erf: return true;
  default: return false;
  }
}

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

/// Builds the function's form in a kernel of its own and moves it into the op's place. The last op takes the
/// result's name.
void Expander::expand(Op& op, OpList& ops) {
  Block scratch;
  KernelBuilder builder(scratch);
  std::vector<KV> operands;
  for (const Operand& operand : op.operands) {
    KV x;
    if (operand.isLiteral()) {  // which only its place gives a type
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
  bool legal = true;
  walk(kernel.body, [&](Op& op) { legal = legal && isLegal(op); });
  if (!legal) Expander(kernel).block(kernel.body);
}

}  // namespace tg
