// SPDX-License-Identifier: Apache-2.0
// One step of each optimizer, and the sum of squares for clipping.
#include "ir/decompose/decompose.h"

#include "ir/op_view.h"

namespace tg::decomposition {

// m' = β₁m + (1-β₁)g, v' = β₂v + (1-β₂)g², p' = (1-shrink)·p - lr_t·m'/(√v' + ε·eps_scale). 1-β is
// formed in f64 and rounded once: 1 - f32(0.999) is 1.3e-5 off.
Results expand(at::adam_update, const Composite& composite) {
  const Op& op = composite.op;
  TensorExpr p = composite[at::adam_update::p], g = composite[at::adam_update::g],
             m = composite[at::adam_update::m], v = composite[at::adam_update::v];
  TensorExpr lr = composite[at::adam_update::lr_t], shrink = composite[at::adam_update::shrink],
             scale = composite[at::adam_update::eps_scale];
  double beta1 = as::adam_update(op).beta1(), beta2 = as::adam_update(op).beta2();
  TensorExpr m2 = beta1 * m + (1 - beta1) * g;
  TensorExpr v2 = beta2 * v + (1 - beta2) * square(g);
  double eps = as::adam_update(op).eps();
  TensorExpr root = sqrt(v2);
  TensorExpr step = lr * m2 / (scale ? root + eps * scale : root + eps);
  TensorExpr kept = shrink ? (1.0 - shrink) * p : p;
  return {kept - step, m2, v2};
}

// Σ x² of all operands, one after the other
Results expand(at::sum_of_squares, const Composite& composite) {
  TensorExpr total;
  for (Value* operand : composite.operands) {
    TensorExpr squares = square(TensorExpr{&composite.builder, operand});
    if (squares.rank() > 0)
      squares = operand->type.elements() == 1 ? squares.reshape({}) : squares.sum(allAxes(squares.rank()));
    total = total ? total + squares : squares;
  }
  return {total};
}

// d = g + decay·p, v' = momentum·v + d, p' = p - lr·v' or p - lr·(d + momentum·v').
Results expand(at::sgd_update, const Composite& composite) {
  TensorExpr p = composite[at::sgd_update::p], g = composite[at::sgd_update::g],
             lr = composite[at::sgd_update::lr], decay = composite[at::sgd_update::decay],
             v = composite[at::sgd_update::v];
  TensorExpr d = g + decay * p;
  if (!v) return {p - lr * d};
  double momentum = as::sgd_update(composite.op).momentum();
  TensorExpr v2 = momentum * v + d;
  TensorExpr direction = as::sgd_update(composite.op).nesterov() ? d + momentum * v2 : v2;
  return {p - lr * direction, v2};
}

}  // namespace tg::decomposition
