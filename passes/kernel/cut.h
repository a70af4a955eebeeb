// SPDX-License-Identifier: Apache-2.0
// Where a kernel's gradient is cut off although its results depend on the value.
#pragma once

#include "ir/diagnostic.h"
#include "passes/kernel/activity.h"

namespace tg {

/// Remarks on ops that a float's value passes to a result, but its gradient does not:
/// - a tgk.bitcast, whose result is no step function as that of a cast or tgk.floor is, so that the gradient
///   lacks a part;
/// - the first such op on the way from a parameter of `wrt` that has no gradient because of it.
/// Indices, conditions and tgk.stop_gradient pass no value on.
std::vector<Diagnostic> findCuts(const Item& kernel, const Activity& activity,
                                 const std::vector<const Value*>& wrt, const std::vector<const Value*>& of);

}  // namespace tg
