// SPDX-License-Identifier: Apache-2.0
// Composites: a fast gradient, itself a composite, where one exists. The fast gradients differentiate
// by decomposition, which is what gradients of gradients use.
#pragma once

#include "passes/grad_rules/entries.h"

namespace tg::grad_rules {

Grads softmax(const GradContext& context);
Grads logSoftmax(const GradContext& context);
Grads crossEntropy(const GradContext& context);
Grads layerNorm(const GradContext& context);
Grads rmsNorm(const GradContext& context);
Grads rope(const GradContext& context);
Grads gelu(const GradContext& context);

TG_GRAD_RULE(softmax, "dx = softmax_grad(r, g)", softmax);
TG_GRAD_RULE(log_softmax, "dx = log_softmax_grad(r, g)", logSoftmax);
TG_GRAD_RULE(
    cross_entropy,
    "dlogits = cross_entropy_grad(logits, targets, g), for mean g/rows, or g/max(n, 1) with n the rows "
    "not ignored",
    crossEntropy);
TG_GRAD_RULE(layer_norm, "dx, μ, s = layer_norm_grad(x, gain, g); dgain = Σ g·(x - μ)·s; dbias = Σ g",
             layerNorm);
TG_GRAD_RULE(rms_norm, "dx, s = rms_norm_grad(x, gain, g); dgain = Σ g·x·s", rmsNorm);
TG_GRAD_RULE(gelu, "dx = gelu_grad(x, g)", gelu);
TG_GRAD_DECOMPOSES(softmax_grad);
TG_GRAD_DECOMPOSES(sum_of_squares);
TG_GRAD_DECOMPOSES(log_softmax_grad);
TG_GRAD_DECOMPOSES(cross_entropy_grad);
TG_GRAD_DECOMPOSES(layer_norm_grad);
TG_GRAD_RULE(rope, "dq, dk = rope(g_q, g_k) the other way round (inverse)", rope);
TG_GRAD_DECOMPOSES(rms_norm_grad);
TG_GRAD_DECOMPOSES(gelu_grad);
TG_NO_GRAD(adam_update, "an optimizer's step is not part of a loss");
TG_NO_GRAD(sgd_update, "an optimizer's step is not part of a loss");
TG_NO_GRAD(all_reduce, "data-parallel joins gradients of several ranks, behind append-grad");
TG_NO_GRAD(reduce_scatter, "data-parallel joins gradients of several ranks, behind append-grad");
TG_NO_GRAD(all_gather, "an optimizer's step is not part of a loss");

}  // namespace tg::grad_rules
