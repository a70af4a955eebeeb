// SPDX-License-Identifier: Apache-2.0
// Gradients of random ops. Draws have none. The gradient of dropout draws the same numbers again, so no mask is stored.
#include "passes/grad_rules/entries.h"

#include "ir/op_view.h"

namespace tg::grad_rules {

static Grads dropout(const GradContext& context) {
  return {context.sibling(Opcode::dropout, {context.g(), context.in(at::dropout::rng)}), {}};
}

GradEntry gradient(at::random_uniform) { return noGradient("its operand is a key"); }
GradEntry gradient(at::random_normal) { return noGradient("its operand is a key"); }
GradEntry gradient(at::categorical) { return noGradient("its result is a class"); }
GradEntry gradient(at::dropout) { return rule("dx = dropout(g, rng), of the same p and salt", dropout); }

}  // namespace tg::grad_rules
