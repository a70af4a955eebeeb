// SPDX-License-Identifier: Apache-2.0
// Gradients of windows. The three convolution rows are closed under differentiation: each is linear in
// both operands, and its gradients are the other two.
#pragma once

#include "passes/grad_rules/entries.h"

namespace tg::grad_rules {

Grads unfold(const GradContext& context);
Grads fold(const GradContext& context);
Grads conv2d(const GradContext& context);
Grads conv2dGradInput(const GradContext& context);
Grads conv2dGradWeight(const GradContext& context);
Grads convTranspose2d(const GradContext& context);
Grads maxPool2d(const GradContext& context);
Grads avgPool2d(const GradContext& context);
Grads avgPool2dGrad(const GradContext& context);

TG_GRAD_RULE(unfold, "dx = fold(g)", unfold);
TG_GRAD_RULE(fold, "dp = unfold(g)", fold);
TG_GRAD_RULE(conv2d, "dx = conv2d_grad_input(w, g), dw = conv2d_grad_weight(x, g)", conv2d);
TG_GRAD_RULE(conv2d_grad_input, "dw = conv2d_grad_weight(g, dy), ddy = conv2d(g, w)", conv2dGradInput);
TG_GRAD_RULE(conv2d_grad_weight, "dx = conv2d_grad_input(g, dy), ddy = conv2d(x, g)", conv2dGradWeight);
TG_GRAD_RULE(conv_transpose2d, "dx = conv2d(g, w), dw = conv2d_grad_weight(g, x)", convTranspose2d);
TG_GRAD_RULE(max_pool2d, "dx = max_pool2d_grad(x, g)", maxPool2d);
TG_GRAD_DECOMPOSES(max_pool2d_grad);
TG_GRAD_RULE(avg_pool2d, "dx = avg_pool2d_grad(g)", avgPool2d);
TG_GRAD_RULE(avg_pool2d_grad, "ddy = avg_pool2d(g)", avgPool2dGrad);
TG_GRAD_DECOMPOSES(upsample_nearest2d);

}  // namespace tg::grad_rules
