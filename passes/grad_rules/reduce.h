// SPDX-License-Identifier: Apache-2.0
// Gradients of reductions.
#pragma once

#include "passes/grad_rules/entries.h"

namespace tg::grad_rules {

Grads sum(const GradContext& context);
Grads mean(const GradContext& context);
Grads extremum(const GradContext& context);
Grads logSumExp(const GradContext& context);
Grads cumsum(const GradContext& context);

TG_GRAD_RULE(sum, "dx = g repeated over the axes", sum);
TG_GRAD_RULE(mean, "dx = g/n repeated over the axes, n their extent", mean);
TG_GRAD_RULE(max_reduce, "dx = select(x = r, g/count(x = r), 0)", extremum);
TG_GRAD_RULE(min_reduce, "dx = select(x = r, g/count(x = r), 0)", extremum);
TG_GRAD_RULE(logsumexp, "dx = g·e^(x - r), 0 where x is -inf", logSumExp);
TG_GRAD_RULE(cumsum, "dx = cumsum(g) from the other end", cumsum);
TG_NO_GRAD(argmax, "its result is an index");
TG_NO_GRAD(argmin, "its result is an index");

}  // namespace tg::grad_rules
