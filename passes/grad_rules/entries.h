// SPDX-License-Identifier: Apache-2.0
// How a family of gradient rules states its entries.
#pragma once

#include "ir/op_view.h"
#include "passes/grad_rules/grad_rules.h"

namespace tg::grad_rules {

/// The entry of each row. Rows without a scalar have a definition, in the file of their family; a program without
/// it does not link, and says which row it lacks.
#define OP(id, ...) GradEntry gradient(at::id);
#include "ir/ops.def"
#undef OP

/// Rows with a scalar: the gradient column of the scalar table.
Grads byScalar(const GradContext& context);

/// A function of its own, and its formula.
inline GradEntry rule(std::string_view formula, GradFunction function) {
  return {GradKind::rule, formula, function};
}
inline GradEntry decomposes() { return {GradKind::decomposes, "that of its decomposition", nullptr}; }
inline GradEntry noGradient(std::string_view reason) {
  return {GradKind::notDifferentiable, reason, nullptr};
}
inline GradEntry notInStage(std::string_view reason) { return {GradKind::notInStage, reason, nullptr}; }

}  // namespace tg::grad_rules
