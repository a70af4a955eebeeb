// SPDX-License-Identifier: Apache-2.0
// Gradients of attention: the row statistics of the forward pass are its second result.
#pragma once

#include "passes/grad_rules/entries.h"

namespace tg::grad_rules {

Grads attention(const GradContext& context);

TG_GRAD_RULE(attention,
             "dq, dk, dv = attention_grad(q, k, v, o, lse, g, dlse), lse and dlse of the second result",
             attention);
TG_GRAD_DECOMPOSES(attention_grad);
TG_GRAD_DECOMPOSES(attention_grad_q);
TG_GRAD_DECOMPOSES(attention_grad_kv);

}  // namespace tg::grad_rules
