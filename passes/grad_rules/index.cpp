// SPDX-License-Identifier: Apache-2.0
#include "passes/grad_rules/index.h"

#include "ir/infer.h"
#include "ir/op_view.h"

namespace tg::grad_rules {

Grads gather(const GradContext& context) {
  int64_t rows = context.in(0).shape()[0];
  Value* table = context.builder.op(Opcode::scatter_add, {as::gather(context.op).ids(), context.g().value},
                                    {{"rows", Attr::of(rows)}});
  return {{&context.builder, table}, {}};
}

Grads scatterAdd(const GradContext& context) {
  return {{}, context.g().binary(Opcode::gather, context.in(0))};
}

Grads takeAlongAxis(const GradContext& context) {
  const Shape& shape = context.in(0).shape();
  int64_t extent = shape[normalAxis(as::take_along_axis(context.op).axis(), shape.rank())];
  Value* dx = context.builder.op(Opcode::take_along_axis_grad,
                                 {as::take_along_axis(context.op).ids(), context.g().value},
                                 {{"axis", context.op.attr("axis")}, {"extent", Attr::of(extent)}});
  return {{&context.builder, dx}, {}};
}

Grads takeAlongAxisGrad(const GradContext& context) {
  Value* dy = context.builder.op(Opcode::take_along_axis, {context.g().value, context.op.in(0)},
                                 {{"axis", context.op.attr("axis")}});
  return {{}, {&context.builder, dy}};
}

}  // namespace tg::grad_rules
