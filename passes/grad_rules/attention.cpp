// SPDX-License-Identifier: Apache-2.0
// Gradients of attention. The second result of the forward pass holds the row statistics that the gradient needs. The
// gradient of an attention in f32x3 is computed in f32, as the gradient of the result has no scale yet.
#include "passes/grad_rules/entries.h"

#include <cmath>

#include "ir/attention_parts.h"
#include "ir/decompose/decompose.h"
#include "ir/op_view.h"

namespace tg::grad_rules {
namespace {

/// The attributes of a gradient's ops.
AttrList attrsOf(const Op& op, bool dropping) {
  const std::string precision = as::attention(op).precision();
  AttrList attrs = {{"causal", op.attr("causal")},
                    {"scale", op.attr("scale")},
                    {"precision", Attr::word(precision == "f32x3" ? "f32" : precision)}};
  if (dropping) attrs.push_back({"p", op.attr("p")});
  return attrs;
}

/// The gradient of the bias, p·(dp - δ), over the whole matrix of scores.
TensorExpr ofBias(const GradContext& context, const TensorExpr& g, const TensorExpr& delta) {
  const as::attention view(context.op);
  Builder& builder = context.builder;
  const TensorExpr q = context.in(at::attention::q);
  const double scale =
      view.scale() != 0 ? view.scale() : 1 / std::sqrt(static_cast<double>(q.shape().back()));
  const TensorExpr scores = decomposition::product(q, context.in(at::attention::k), false, true) * scale +
                            context.in(at::attention::more);
  const TensorExpr p{&builder,
                     builder.op(Opcode::softmax, {scores.value}, {{"causal", context.op.attr("causal")}})};
  TensorExpr dp = decomposition::product(g, context.in(at::attention::v), false, true);
  if (keepOf(context.op))
    dp = select(decomposition::staysOf(context.in(at::attention::more + 1)), dp * (1 / (1 - view.p())), 0.0);
  Shape column = delta.shape();
  column.push(1);
  const TensorExpr ds = p * (dp - delta.reshape(column));
  return select(ge(context.result(1).reshape(column), kLeastLse), ds, 0.0);
}

/// With a bias, or a keep: the gradients of q, k and v by their two ops.
Grads withMore(const GradContext& context, const TensorExpr& o, const TensorExpr& lse, const TensorExpr& g) {
  Builder& builder = context.builder;
  TensorExpr delta = (g * o).sum({o.rank() - 1});
  if (TensorExpr dlse = context.g(1)) delta = delta - dlse;
  std::vector<Value*> operands;
  for (int i = 0; i < 3; ++i) operands.push_back(context.in(i).value);
  operands.insert(operands.end(), {lse.value, delta.value, g.value});
  for (int i = at::attention::more; i < context.op.numOperands(); ++i)
    operands.push_back(context.in(i).value);
  const AttrList attrs = attrsOf(context.op, true);
  const TensorExpr dq{&builder, builder.op(Opcode::attention_grad_q, operands, attrs)};
  const TensorExpr dk{&builder, builder.op(Opcode::attention_grad_kv, operands, attrs)};
  Grads grads{dq, dk, {&builder, dk.value->def->result(1)}};
  if (context.wants(at::attention::more)) grads.push_back(ofBias(context, g, delta));
  return grads;
}

Grads attention(const GradContext& context) {
  TensorExpr o = context.result(0), lse = context.result(1), g = context.g(0);
  // If only lse is read, the gradient of o is zero.
  if (!g) g = {&context.builder, context.builder.constant(0, o.value->type)};
  if (!isSplit(context.op) && context.op.numOperands() > at::attention::more)
    return withMore(context, o, lse, g);
  std::vector<Value*> operands;
  for (int i = 0; i < 3; ++i) operands.push_back(context.in(i).value);
  operands.insert(operands.end(), {o.value, lse.value, g.value});
  if (TensorExpr dlse = context.g(1)) operands.push_back(dlse.value);
  Value* dq = context.builder.op(Opcode::attention_grad, operands, attrsOf(context.op, false));
  Grads grads;
  for (int i = 0; i < 3; ++i) grads.push_back({&context.builder, dq->def->result(i)});
  return grads;
}

}  // namespace

GradEntry gradient(at::attention) {
  return rule(
      "dq, dk, dv = attention_grad(q, k, v, o, lse, g, dlse), lse and dlse of the second result; with a bias "
      "or a keep dq = attention_grad_q, dk, dv = attention_grad_kv, of δ = Σ g·o - dlse; dbias = p·(dp - δ)",
      attention);
}
GradEntry gradient(at::attention_grad) { return decomposes(); }
GradEntry gradient(at::attention_grad_q) { return decomposes(); }
GradEntry gradient(at::attention_grad_kv) { return decomposes(); }

}  // namespace tg::grad_rules
