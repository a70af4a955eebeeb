// SPDX-License-Identifier: Apache-2.0
#include "passes/grad_rules/random.h"

#include "ir/op_view.h"

namespace tg::grad_rules {

Grads dropout(const GradContext& context) {
  Value* dx = context.builder.op(Opcode::dropout, {context.g().value, as::dropout(context.op).rng()},
                                 context.op.attrs);
  return {{&context.builder, dx}, {}};
}

}  // namespace tg::grad_rules
