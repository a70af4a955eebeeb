// SPDX-License-Identifier: Apache-2.0
// The gradient of tg.custom: a call of the kernel's VJP.
#pragma once

#include "passes/grad_rules/entries.h"

namespace tg::grad_rules {

/// One gradient for each operand of a tg.custom, empty where none flows. Adds the VJP kernel to the module
/// unless it is there already; `checkpoint` is KernelVjpRequest's. An error is a refusal of the kernel's
/// gradient, located in the kernel; `onRemark` hears where a part of it is cut off.
Result<Grads> custom(const GradContext& context, int64_t checkpoint, const DiagnosticHandler& onRemark);

template <>
struct Entry<Opcode::custom> {
  static constexpr GradEntry kEntry{GradKind::rule, "the kernel's vjp(@…), else that of kernel-vjp", nullptr};
};

}  // namespace tg::grad_rules
