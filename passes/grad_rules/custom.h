// SPDX-License-Identifier: Apache-2.0
// The gradient of tg.custom: a call of the kernel's VJP.
#pragma once

#include "ir/result.h"
#include "passes/grad_rules/grad_rules.h"

namespace tg::grad_rules {

/// One gradient for each operand of a tg.custom, empty where none flows. Adds the VJP kernel to the module unless it is
/// there. `checkpoint` is that of KernelVjpRequest. Fails where the kernel's gradient is refused, with a location in the
/// kernel. `onRemark` is told where a part of the gradient is cut off.
Result<Grads> custom(const GradContext& context, int64_t checkpoint, const DiagnosticHandler& onRemark);

}  // namespace tg::grad_rules
