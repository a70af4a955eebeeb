// SPDX-License-Identifier: Apache-2.0
// Gradients of gathers and scatters.
#include "passes/grad_rules/entries.h"

#include "ir/infer.h"
#include "ir/op_view.h"

namespace tg::grad_rules {

static Grads gather(const GradContext& context) {
  int64_t rows = context.in(0).shape()[0];
  return {context.sibling(Opcode::scatter_add, {context.in(at::gather::ids), context.g()},
                          {{"rows", Attr::of(rows)}}),
          {}};
}

static Grads scatterAdd(const GradContext& context) {
  return {{}, context.g().binary(Opcode::gather, context.in(0))};
}

static Grads takeAlongAxis(const GradContext& context) {
  const Shape& shape = context.in(0).shape();
  int64_t extent = shape[normalAxis(as::take_along_axis(context.op).axis(), shape.rank())];
  return {context.sibling(Opcode::take_along_axis_grad, {context.in(at::take_along_axis::ids), context.g()},
                          {{"extent", Attr::of(extent)}}),
          {}};
}

static Grads takeAlongAxisGrad(const GradContext& context) {
  return {{}, context.sibling(Opcode::take_along_axis, {context.g(), context.in(0)})};
}

GradEntry gradient(at::gather) { return rule("dtable = scatter_add(ids, g)", gather); }
GradEntry gradient(at::embedding) { return rule("dtable = scatter_add(ids, g)", gather); }
GradEntry gradient(at::scatter_add) { return rule("dupdates = gather(g, ids)", scatterAdd); }
GradEntry gradient(at::take_along_axis) { return rule("dx = take_along_axis_grad(ids, g)", takeAlongAxis); }
GradEntry gradient(at::take_along_axis_grad) {
  return rule("ddy = take_along_axis(g, ids)", takeAlongAxisGrad);
}
GradEntry gradient(at::one_hot) { return noGradient("its operand is an index"); }

}  // namespace tg::grad_rules
