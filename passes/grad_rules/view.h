// Gradients of views and of concat: the view read backwards.
#pragma once

#include "passes/grad_rules/entries.h"

namespace tg::grad_rules {

Grads reshape(const GradContext& context);
Grads transpose(const GradContext& context);
Grads slice(const GradContext& context);
Grads pad(const GradContext& context);
Grads concat(const GradContext& context);
Grads broadcastTo(const GradContext& context);

TG_GRAD_RULE(reshape, "dx = g in x's shape", reshape);
TG_GRAD_RULE(transpose, "dx = g transposed by the inverse of perm", transpose);
TG_GRAD_RULE(slice, "dx = g padded with zeros, stride-1 of them between its elements", slice);
TG_GRAD_RULE(pad, "dx = the slice of g that x fills", pad);
TG_GRAD_RULE(concat, "dx_i = the slice of g that x_i fills", concat);
TG_GRAD_RULE(broadcast_to, "dx = the sum of g over the repeated axes", broadcastTo);

}  // namespace tg::grad_rules
