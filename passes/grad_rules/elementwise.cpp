// SPDX-License-Identifier: Apache-2.0
// Gradients of elementwise ops: those with a scalar by the scalar table, and the maps without one.
#include "passes/grad_rules/entries.h"

#include <cmath>

#include "ir/op_view.h"
#include "ir/scalar_expr.h"

namespace tg::grad_rules {

Grads byScalar(const GradContext& context) {
  std::vector<TensorExpr> operands;
  for (int i = 0; i < context.op.numOperands(); ++i) operands.push_back(context.in(i));
  Scalar scalar = context.op.info().scalar;
  return scalarGrads<TensorExpr>(scalar, operands, context.result(), context.g());
}

static Grads cast(const GradContext& context) { return {context.g()}; }

static Grads oneMinusPow(const GradContext& context) {
  return {context.g() * (context.result() - 1.0) * std::log(as::one_minus_pow(context.op).base())};
}

GradEntry gradient(at::cast) { return rule("dx = g as x's element type", cast); }
GradEntry gradient(at::one_minus_pow) { return rule("dt = g·(r - 1)·ln base", oneMinusPow); }
GradEntry gradient(at::clamp) { return decomposes(); }
GradEntry gradient(at::elu) { return decomposes(); }
GradEntry gradient(at::leaky_relu) { return decomposes(); }

}  // namespace tg::grad_rules
