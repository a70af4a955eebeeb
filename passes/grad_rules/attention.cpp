// SPDX-License-Identifier: Apache-2.0
// Gradients of attention. The second result of the forward pass holds the row statistics that the gradient needs. The
// gradient of an attention in f32x3 is computed in f32, as the gradient of the result has no scale yet.
#include "passes/grad_rules/entries.h"

#include "ir/op_view.h"

namespace tg::grad_rules {

static Grads attention(const GradContext& context) {
  TensorExpr o = context.result(0), lse = context.result(1), g = context.g(0);
  // If only lse is read, the gradient of o is zero.
  if (!g) g = {&context.builder, context.builder.constant(0, o.value->type)};
  std::vector<Value*> operands;
  for (int i = 0; i < 3; ++i) operands.push_back(context.in(i).value);
  operands.insert(operands.end(), {o.value, lse.value, g.value});
  if (TensorExpr dlse = context.g(1)) operands.push_back(dlse.value);
  const std::string precision = as::attention(context.op).precision();
  AttrList attrs = {{"causal", context.op.attr("causal")},
                    {"scale", context.op.attr("scale")},
                    {"precision", Attr::word(precision == "f32x3" ? "f32" : precision)}};
  Value* dq = context.builder.op(Opcode::attention_grad, operands, attrs);
  Grads grads;
  for (int i = 0; i < 3; ++i) grads.push_back({&context.builder, dq->def->result(i)});
  return grads;
}

GradEntry gradient(at::attention) {
  return rule("dq, dk, dv = attention_grad(q, k, v, o, lse, g, dlse), lse and dlse of the second result",
              attention);
}
GradEntry gradient(at::attention_grad) { return decomposes(); }
GradEntry gradient(at::attention_grad_q) { return decomposes(); }
GradEntry gradient(at::attention_grad_kv) { return decomposes(); }

}  // namespace tg::grad_rules
