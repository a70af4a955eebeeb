// SPDX-License-Identifier: Apache-2.0
#include "passes/grad_rules/attention.h"

#include "ir/op_view.h"

namespace tg::grad_rules {

Grads attention(const GradContext& context) {
  TensorExpr o = context.result(0), lse = context.result(1), g = context.g(0);
  // When only lse is read, nothing flows into o.
  if (!g) g = {&context.builder, context.builder.constant(0, o.value->type)};
  std::vector<Value*> operands = {as::attention(context.op).q(),
                                  as::attention(context.op).k(),
                                  as::attention(context.op).v(),
                                  o.value,
                                  lse.value,
                                  g.value};
  if (TensorExpr dlse = context.g(1)) operands.push_back(dlse.value);
  AttrList attrs = {{"causal", context.op.attr("causal")},
                    {"scale", context.op.attr("scale")},
                    {"precision", context.op.attr("precision")}};
  Value* dq = context.builder.op(Opcode::attention_grad, operands, attrs);
  Grads grads;
  for (int i = 0; i < 3; ++i) grads.push_back({&context.builder, dq->def->result(i)});
  return grads;
}

}  // namespace tg::grad_rules
