// SPDX-License-Identifier: Apache-2.0
#include "passes/grad_rules/elementwise.h"

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

Grads cast(const GradContext& context) { return {context.g().cast(context.in(0).dtype())}; }

Grads oneMinusPow(const GradContext& context) {
  return {context.g() * (context.result() - 1.0) * std::log(as::one_minus_pow(context.op).base())};
}

}  // namespace tg::grad_rules
