// SPDX-License-Identifier: Apache-2.0
// Elementwise gradients: rows of the scalar table, and the maps without a scalar.
#pragma once

#include "passes/grad_rules/entries.h"

namespace tg::grad_rules {

Grads byScalar(const GradContext& context);
Grads cast(const GradContext& context);
Grads oneMinusPow(const GradContext& context);

TG_GRAD_RULE(cast, "dx = g as x's element type", cast);
TG_GRAD_RULE(one_minus_pow, "dt = g·(r - 1)·ln base", oneMinusPow);

TG_GRAD_DECOMPOSES(clamp);
TG_GRAD_DECOMPOSES(leaky_relu);

}  // namespace tg::grad_rules
