// SPDX-License-Identifier: Apache-2.0
// The steps of the optimizers.
#include "ir/decompose/decompose.h"

namespace tg::decomposition {

// m' = β₁m + (1-β₁)g, v' = β₂v + (1-β₂)g², p' = (1-shrink)·p - lr_t·m'/(√v' + ε·eps_scale). 1-β is
// formed in f64 and rounded once: 1 - f32(0.999) is 1.3e-5 off.
Results adamUpdate(const Composite& composite) {
  const Op& op = composite.op;
  TensorExpr p = composite[0], g = composite[1], m = composite[2], v = composite[3];
  TensorExpr lr = composite[4], shrink = composite[5], scale = composite[6];
  double beta1 = op.realAttr("beta1"), beta2 = op.realAttr("beta2");
  TensorExpr m2 = beta1 * m + (1 - beta1) * g;
  TensorExpr v2 = beta2 * v + (1 - beta2) * square(g);
  double eps = op.realAttr("eps");
  TensorExpr root = sqrt(v2);
  TensorExpr step = lr * m2 / (scale ? root + eps * scale : root + eps);
  TensorExpr kept = shrink ? (1.0 - shrink) * p : p;
  return {kept - step, m2, v2};
}

// d = g + decay·p, v' = momentum·v + d, p' = p - lr·v' or p - lr·(d + momentum·v').
Results sgdUpdate(const Composite& composite) {
  TensorExpr p = composite[0], g = composite[1], lr = composite[2], decay = composite[3], v = composite[4];
  TensorExpr d = g + decay * p;
  if (!v) return {p - lr * d};
  double momentum = composite.op.realAttr("momentum");
  TensorExpr v2 = momentum * v + d;
  TensorExpr direction = composite.op.flag("nesterov") ? d + momentum * v2 : v2;
  return {p - lr * direction, v2};
}

}  // namespace tg::decomposition
