// SPDX-License-Identifier: Apache-2.0
// Gradients of composites: where a fast gradient op exists, which is a composite itself, the rule uses it. Fast gradient
// ops are differentiated by their decomposition, for gradients of gradients.
#include "passes/grad_rules/entries.h"

#include "ir/cross_entropy.h"
#include "ir/op_view.h"

namespace tg::grad_rules {

// Masked elements of a causal softmax are 0 in r, so the gradient needs no mask.
static Grads softmax(const GradContext& context) {
  return {context.sibling(Opcode::softmax_grad, {context.result(), context.g()})};
}

static Grads logSoftmax(const GradContext& context) {
  return {context.sibling(Opcode::log_softmax_grad, {context.result(), context.g()})};
}

static Grads crossEntropy(const GradContext& context) {
  TensorExpr g = context.g(), targets = context.in(at::cross_entropy::targets);
  int64_t rows = targets.value->type.elements();
  const bool mean = as::cross_entropy(context.op).reduction() == "mean";
  if (mean && rows > 1)
    g = ignoredTarget(context.op) ? g / countedRows(context.op, {targets}, g.dtype())
                                  : g / static_cast<double>(rows);
  return {context.sibling(Opcode::cross_entropy_grad, {context.in(0), targets, g}), {}};
}

static Grads layerNorm(const GradContext& context) {
  TensorExpr x = context.in(0), g = context.g();
  Grads grads(3);
  if (context.wants(0) || context.wants(at::layer_norm::gain)) {
    TensorExpr dx = context.sibling(Opcode::layer_norm_grad, {x, context.in(at::layer_norm::gain), g});
    const Op& op = *dx.value->def;
    TensorExpr mean{&context.builder, op.result(1)}, rstd{&context.builder, op.result(2)};
    if (context.wants(0)) grads[0] = dx;
    if (context.wants(at::layer_norm::gain))
      grads[1] = (g * (x - mean) * rstd).sumTo(context.in(at::layer_norm::gain).shape());
  }
  if (context.wants(at::layer_norm::bias)) grads[2] = g.sumTo(context.in(at::layer_norm::bias).shape());
  return grads;
}

static Grads rmsNorm(const GradContext& context) {
  TensorExpr x = context.in(0), g = context.g();
  TensorExpr dx = context.sibling(Opcode::rms_norm_grad, {x, context.in(at::rms_norm::gain), g});
  TensorExpr s{&context.builder, dx.value->def->result(1)};
  Grads grads(2);
  if (context.wants(0)) grads[0] = dx;
  if (context.wants(at::rms_norm::gain)) grads[1] = (g * x * s).sumTo(context.in(at::rms_norm::gain).shape());
  return grads;
}

// The transpose of a rotation is the inverse rotation. If one gradient is missing, the other one is rotated in its place
// and that result is dropped.
static Grads rope(const GradContext& context) {
  TensorExpr q = context.g(0) ? context.g(0) : context.g(1), k = context.g(1) ? context.g(1) : context.g(0);
  const bool inverse = as::rope(context.op).inverse();
  const Op& back = *context.sibling(Opcode::rope, {q, k}, {{"inverse", Attr::boolean(!inverse)}}).value->def;
  Grads grads(2);
  if (context.g(0)) grads[0] = {&context.builder, back.result(0)};
  if (context.g(1)) grads[1] = {&context.builder, back.result(1)};
  return grads;
}

static Grads gelu(const GradContext& context) {
  return {context.sibling(Opcode::gelu_grad, {context.in(0), context.g()})};
}

GradEntry gradient(at::softmax) { return rule("dx = softmax_grad(r, g)", softmax); }
GradEntry gradient(at::log_softmax) { return rule("dx = log_softmax_grad(r, g)", logSoftmax); }
GradEntry gradient(at::cross_entropy) {
  return rule("dlogits = cross_entropy_grad(logits, targets, g), for mean g/rows, or g/max(n, 1) with n the "
              "rows not ignored",
              crossEntropy);
}
GradEntry gradient(at::layer_norm) {
  return rule("dx, μ, s = layer_norm_grad(x, gain, g); dgain = Σ g·(x - μ)·s; dbias = Σ g", layerNorm);
}
GradEntry gradient(at::rms_norm) {
  return rule("dx, s = rms_norm_grad(x, gain, g); dgain = Σ g·x·s", rmsNorm);
}
GradEntry gradient(at::gelu) { return rule("dx = gelu_grad(x, g)", gelu); }
GradEntry gradient(at::softmax_grad) { return decomposes(); }
GradEntry gradient(at::sum_of_squares) { return decomposes(); }
GradEntry gradient(at::log_softmax_grad) { return decomposes(); }
GradEntry gradient(at::cross_entropy_grad) { return decomposes(); }
GradEntry gradient(at::layer_norm_grad) { return decomposes(); }
GradEntry gradient(at::rope) { return rule("dq, dk = rope(g_q, g_k) with the opposite inverse", rope); }
GradEntry gradient(at::rms_norm_grad) { return decomposes(); }
GradEntry gradient(at::gelu_grad) { return decomposes(); }
GradEntry gradient(at::adam_update) { return noGradient("an optimizer's step is not part of a loss"); }
GradEntry gradient(at::sgd_update) { return noGradient("an optimizer's step is not part of a loss"); }
GradEntry gradient(at::all_reduce) { return noGradient("data-parallel adds collectives after append-grad"); }
GradEntry gradient(at::reduce_scatter) {
  return noGradient("data-parallel adds collectives after append-grad");
}
GradEntry gradient(at::all_gather) { return noGradient("an optimizer's step is not part of a loss"); }

}  // namespace tg::grad_rules
