// SPDX-License-Identifier: Apache-2.0
// Declares the gradient rule of each op, and helpers to define them.
#pragma once

#include "ir/op_view.h"
#include "ir/result.h"
#include "passes/grad_rules/grad_rules.h"

namespace tg::grad_rules {

/// The gradient rule of each op. Ops without a scalar need a definition in the file of their family; a missing one is an
/// error of the linker that names the op.
#define OP(id, ...) GradEntry gradient(at::id);
#include "ir/ops.def"
#undef OP

/// The rule of ops with a scalar: the gradient column of the scalar table.
Grads byScalar(const GradContext& context);

/// A rule with a function of its own, and its formula for messages and docs.
inline GradEntry rule(std::string_view formula, GradFunction function) {
  return {GradKind::rule, formula, function};
}
inline GradEntry decomposes() { return {GradKind::decomposes, "that of its decomposition", nullptr}; }
inline GradEntry noGradient(std::string_view reason) {
  return {GradKind::notDifferentiable, reason, nullptr};
}
inline GradEntry notInStage(std::string_view reason) { return {GradKind::notInStage, reason, nullptr}; }

/// One gradient for each operand of a tg.custom, empty where none flows. Adds the VJP kernel to the module unless it is
/// there. `checkpoint` is that of KernelVjpRequest. Fails where the kernel's gradient is refused, with a location in the
/// kernel. `onRemark` is told where a part of the gradient is cut off.
Result<Grads> custom(const GradContext& context, int64_t checkpoint, const DiagnosticHandler& onRemark);

}  // namespace tg::grad_rules
