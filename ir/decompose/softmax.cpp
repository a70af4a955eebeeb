// SPDX-License-Identifier: Apache-2.0
// softmax, log_softmax, logsumexp and their gradients in forms that do not overflow: the row's maximum is subtracted
// first. The result does not depend on the maximum, so that it is under stop_gradient.
#include "ir/decompose/decompose.h"
#include "ir/infer.h"
#include "ir/op_view.h"

namespace tg::decomposition {

TensorExpr causalMask(const TensorExpr& x) {
  const Type matrix = Type::tensor(DType::i1, {x.shape()[x.rank() - 2], x.shape().back()});
  return {x.builder, x.builder->op(Opcode::causal_mask, {}, {}, {matrix})};
}

TensorExpr shifted(const TensorExpr& x, int64_t axis) { return x - stopGradient(x.maxOver({axis}, true)); }

TensorExpr masked(const TensorExpr& mask, const TensorExpr& x) {
  return mask ? select(mask, x, x.lowest()) : x;
}

// e^(x-max) / Σ e^(x-max)
Results expand(at::softmax, const Composite& composite) {
  TensorExpr x = composite[0];
  int64_t axis = normalAxis(as::softmax(composite.op).axis(), x.rank());
  TensorExpr mask;
  if (as::softmax(composite.op).causal()) mask = causalMask(x);
  TensorExpr e = exp(shifted(masked(mask, x), axis));
  // If no visible score is above the fill, that is the maximum, and e^(x-max) of a hidden element is 1.
  if (mask) e = select(mask, e, 0.0);
  TensorExpr total = e.sum({axis}, true);
  // With more rows than columns the first rows see no column: they become zeros, not a uniform distribution.
  if (mask && x.shape()[x.rank() - 2] > x.shape().back()) total = select(gt(total, 0.0), total, 1.0);
  return {e / total};
}

// y·(dy - Σ y·dy)
Results expand(at::softmax_grad, const Composite& composite) {
  TensorExpr y = composite[at::softmax_grad::y], dy = composite[at::softmax_grad::dy];
  int64_t axis = normalAxis(as::softmax_grad(composite.op).axis(), y.rank());
  return {y * (dy - (y * dy).sum({axis}, true))};
}

// z - log Σ e^z with z = x - max
Results expand(at::log_softmax, const Composite& composite) {
  TensorExpr x = composite[0];
  int64_t axis = normalAxis(as::log_softmax(composite.op).axis(), x.rank());
  TensorExpr mask;
  if (as::log_softmax(composite.op).causal()) mask = causalMask(x);
  TensorExpr z = shifted(masked(mask, x), axis);
  TensorExpr y = z - log(exp(z).sum({axis}, true));
  return {mask ? select(mask, y, 0.0) : y};
}

// dy - e^y·Σ dy, without the masked elements
Results expand(at::log_softmax_grad, const Composite& composite) {
  TensorExpr y = composite[at::log_softmax_grad::y], dy = composite[at::log_softmax_grad::dy];
  int64_t axis = normalAxis(as::log_softmax_grad(composite.op).axis(), y.rank());
  TensorExpr mask;
  if (as::log_softmax_grad(composite.op).causal()) mask = causalMask(y);
  if (mask) dy = select(mask, dy, 0.0);
  TensorExpr dx = dy - exp(y) * dy.sum({axis}, true);
  return {mask ? select(mask, dx, 0.0) : dx};
}

// m + log Σ e^(x-m), m the maximum. m is made finite, so that rows of only -inf have no inf - inf.
Results expand(at::logsumexp, const Composite& composite) {
  TensorExpr x = composite[0];
  std::vector<int64_t> axes = as::logsumexp(composite.op).axes();
  TensorExpr m = stopGradient(min(max(x.maxOver(axes, true), x.lowest()), -x.lowest()));
  TensorExpr r = log(exp(x - m).sum(axes, true)) + m;
  return {r.reshape(reducedShape(x.shape(), axes, as::logsumexp(composite.op).keepdims()))};
}

}  // namespace tg::decomposition
