// Gradients of reductions.
#pragma once

#include "passes/grad_rules/entries.h"

namespace tg::grad_rules {

Grads sum(const GradContext& context);
Grads mean(const GradContext& context);
Grads maxReduce(const GradContext& context);

TG_GRAD_RULE(sum, "dx = g repeated over the axes", sum);
TG_GRAD_RULE(mean, "dx = g/n repeated over the axes, n their extent", mean);
TG_GRAD_RULE(max_reduce, "dx = select(x = r, g/count(x = r), 0)", maxReduce);
TG_NO_GRAD(argmax, "its result is an index");

}  // namespace tg::grad_rules
