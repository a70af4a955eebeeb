// SPDX-License-Identifier: Apache-2.0
// Gradients of gathers and scatters.
#include "passes/grad_rules/entries.h"

#include "ir/infer.h"
#include "ir/op_view.h"

namespace tg::grad_rules {

static Grads gather(const GradContext& context) {
  int64_t rows = context.in(0).shape()[0];
  Value* table = context.builder.op(Opcode::scatter_add, {as::gather(context.op).ids(), context.g().value},
                                    {{"rows", Attr::of(rows)}});
  return {{&context.builder, table}, {}};
}

static Grads scatterAdd(const GradContext& context) {
  return {{}, context.g().binary(Opcode::gather, context.in(0))};
}

static Grads takeAlongAxis(const GradContext& context) {
  const Shape& shape = context.in(0).shape();
  int64_t extent = shape[normalAxis(as::take_along_axis(context.op).axis(), shape.rank())];
  Value* dx = context.builder.op(Opcode::take_along_axis_grad,
                                 {as::take_along_axis(context.op).ids(), context.g().value},
                                 {{"axis", context.op.attr("axis")}, {"extent", Attr::of(extent)}});
  return {{&context.builder, dx}, {}};
}

static Grads takeAlongAxisGrad(const GradContext& context) {
  Value* dy = context.builder.op(Opcode::take_along_axis, {context.g().value, context.op.in(0)},
                                 {{"axis", context.op.attr("axis")}});
  return {{}, {&context.builder, dy}};
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
