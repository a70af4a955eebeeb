#include "passes/grad_rules/index.h"

namespace tg::grad_rules {

Grads gather(const GradContext& context) {
  int64_t rows = context.in(0).shape()[0];
  Value* table = context.builder.op(Opcode::scatter_add, {context.op.in(1), context.g().value},
                                    {{"rows", Attr::of(rows)}});
  return {{&context.builder, table}, {}};
}

Grads scatterAdd(const GradContext& context) {
  return {{}, context.g().binary(Opcode::gather, context.in(0))};
}

}  // namespace tg::grad_rules
