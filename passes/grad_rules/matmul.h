// SPDX-License-Identifier: Apache-2.0
// Gradients of contractions.
#pragma once

#include "passes/grad_rules/entries.h"

namespace tg::grad_rules {

Grads matmul(const GradContext& context);

TG_GRAD_RULE(
    matmul, "dA = g·Bᵀ, dB = Aᵀ·g, transposed where the operand is; summed over batch axes the operand lacks",
    matmul);

}  // namespace tg::grad_rules
