// SPDX-License-Identifier: Apache-2.0
// Finds ops at which a kernel's gradient is lost although its results depend on the operand.
#pragma once

#include "ir/diagnostic.h"
#include "passes/kernel/activity.h"

namespace tg {

/// Remarks on ops through which a float flows to a result, but its gradient does not:
/// - a tgk.bitcast: its result is no step function, unlike that of a cast or tgk.floor, so the gradient lacks a part;
/// - the first such op on the way from a parameter of `wrt` that therefore has no gradient.
/// Indices, conditions and tgk.stop_gradient do not count as flow.
std::vector<Diagnostic> findCuts(const Item& kernel, const Activity& activity,
                                 const std::vector<const Value*>& wrt, const std::vector<const Value*>& of);

}  // namespace tg
