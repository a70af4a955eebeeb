// SPDX-License-Identifier: Apache-2.0
// Gradients of reads and writes by index.
#pragma once

#include "passes/grad_rules/entries.h"

namespace tg::grad_rules {

Grads gather(const GradContext& context);
Grads scatterAdd(const GradContext& context);
Grads takeAlongAxis(const GradContext& context);
Grads takeAlongAxisGrad(const GradContext& context);

TG_GRAD_RULE(gather, "dtable = scatter_add(ids, g)", gather);
TG_GRAD_RULE(embedding, "dtable = scatter_add(ids, g)", gather);
TG_GRAD_RULE(scatter_add, "dupdates = gather(g, ids)", scatterAdd);
TG_GRAD_RULE(take_along_axis, "dx = take_along_axis_grad(ids, g)", takeAlongAxis);
TG_GRAD_RULE(take_along_axis_grad, "ddy = take_along_axis(g, ids)", takeAlongAxisGrad);
TG_NO_GRAD(one_hot, "its operand is an index");

}  // namespace tg::grad_rules
