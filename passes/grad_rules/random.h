// SPDX-License-Identifier: Apache-2.0
// Gradients of random ops. Draws have none; dropout's draws the same numbers again, so that no mask is kept.
#pragma once

#include "passes/grad_rules/entries.h"

namespace tg::grad_rules {

Grads dropout(const GradContext& context);

TG_NO_GRAD(random_uniform, "its operand is a key");
TG_NO_GRAD(random_normal, "its operand is a key");
TG_NO_GRAD(categorical, "its result is a class");
TG_GRAD_RULE(dropout, "dx = dropout(g, rng), of the same p and salt", dropout);

}  // namespace tg::grad_rules
