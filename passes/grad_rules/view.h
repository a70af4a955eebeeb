// SPDX-License-Identifier: Apache-2.0
// Gradients of views, of concat and of what is made of them: the view read backwards.
#pragma once

#include "passes/grad_rules/entries.h"

namespace tg::grad_rules {

Grads reshape(const GradContext& context);
Grads transpose(const GradContext& context);
Grads slice(const GradContext& context);
Grads pad(const GradContext& context);
Grads concat(const GradContext& context);
Grads broadcastTo(const GradContext& context);
Grads flip(const GradContext& context);
Grads swapAxes(const GradContext& context);
Grads split(const GradContext& context);
Grads whereCausal(const GradContext& context);

TG_GRAD_RULE(reshape, "dx = g in x's shape", reshape);
TG_GRAD_RULE(transpose, "dx = g transposed by the inverse of perm", transpose);
TG_GRAD_RULE(slice, "dx = g padded with zeros, stride-1 of them between its elements", slice);
TG_GRAD_RULE(pad, "dx = the slice of g that x fills, with stride interior + 1", pad);
TG_GRAD_RULE(concat, "dx_i = the slice of g that x_i fills", concat);
TG_GRAD_RULE(broadcast_to, "dx = the sum of g over the repeated axes", broadcastTo);
TG_GRAD_RULE(flip, "dx = g flipped along the same axes", flip);
TG_GRAD_RULE(swap_axes, "dx = g with the same axes exchanged", swapAxes);
TG_GRAD_RULE(split, "dx = concat(g_1, g_2, …) along the axis", split);
TG_GRAD_RULE(where_causal, "dx = where_causal(g) with fill 0", whereCausal);
TG_GRAD_DECOMPOSES(stack);
TG_GRAD_DECOMPOSES(tile);

}  // namespace tg::grad_rules
