// SPDX-License-Identifier: Apache-2.0
// Gradients of reductions.
#include "passes/grad_rules/entries.h"

#include "ir/infer.h"
#include "ir/op_view.h"

namespace tg::grad_rules {

/// Reshapes `reduced`, a tensor of the result's shape, so that it broadcasts to x's shape.
static TensorExpr withAxes(const GradContext& context, const TensorExpr& reduced) {
  if (reduced.rank() == 0) return reduced;
  return reduced.reshape(reducedShape(context.in(0).shape(), as::sum(context.op).axes(), true));
}

static Grads sum(const GradContext& context) {
  return {withAxes(context, context.g()).broadcastTo(context.in(0).shape())};
}

static Grads mean(const GradContext& context) {
  double count =
      static_cast<double>(context.in(0).value->type.elements() / context.g().value->type.elements());
  return {withAxes(context, context.g() / count).broadcastTo(context.in(0).shape())};
}

static Grads extremum(const GradContext& context) {
  TensorExpr x = context.in(0);
  TensorExpr attains = eq(x, withAxes(context, context.result()));
  TensorExpr count = attains.cast(x.dtype()).sum(as::max_reduce(context.op).axes(), true);
  return {select(attains, withAxes(context, context.g()) / count, 0.0)};
}

// r is -inf where all of x is. With r raised to the lowest finite value, x - r is -inf there, not NaN.
static Grads logSumExp(const GradContext& context) {
  TensorExpr x = context.in(0);
  TensorExpr r = max(withAxes(context, context.result()), x.lowest());
  return {withAxes(context, context.g()) * exp(x - r)};
}

static Grads cumsum(const GradContext& context) {
  const bool reverse = as::cumsum(context.op).reverse();
  return {context.sibling(Opcode::cumsum, {context.g()}, {{"reverse", Attr::boolean(!reverse)}})};
}

GradEntry gradient(at::sum) { return rule("dx = g repeated over the axes", sum); }
GradEntry gradient(at::mean) { return rule("dx = g/n repeated over the axes, n their extent", mean); }
GradEntry gradient(at::max_reduce) { return rule("dx = select(x = r, g/count(x = r), 0)", extremum); }
GradEntry gradient(at::min_reduce) { return rule("dx = select(x = r, g/count(x = r), 0)", extremum); }
GradEntry gradient(at::logsumexp) { return rule("dx = g·e^(x - r), 0 where x is -inf", logSumExp); }
GradEntry gradient(at::cumsum) { return rule("dx = cumsum(g) from the other end", cumsum); }
GradEntry gradient(at::argmax) { return noGradient("its result is an index"); }
GradEntry gradient(at::argmin) { return noGradient("its result is an index"); }

}  // namespace tg::grad_rules
