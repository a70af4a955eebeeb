// SPDX-License-Identifier: Apache-2.0
// The steps of a VJP around its two sweeps: rewrites of the kernel before them, the errors of kernels that have no
// gradient, and remarks where a gradient is lost.
#pragma once

#include "ir/diagnostic.h"
#include "ir/module.h"
#include "ir/result.h"
#include "passes/kernel/activity.h"
#include "passes/kernel/replay.h"

namespace tg {

/// The rows of kernelVjpRefusals(), labelled kernel-vjp.g1, g2, …
enum class Refusal : uint8_t { oldValue, exchange, exact, order, rank, trips, matrix, shared, local };

/// `12:5: error: tgk.atomic_exchange [kernel-vjp.g2]: why`, with a note that says how to fix it.
Error refusal(const Op& op, Refusal which);
Error refusal(const Item& kernel, Refusal which);

/// Fails with one error for each active op that has no derivative.
Result<void> checkDifferentiable(const KernelFacts& facts, const Activity& activity);
/// Fails unless the atomics of a VJP give the same old values as those of the kernel's own run.
Result<void> checkRepeatable(const Item& vjp);

/// Splits every loop with carried values that runs, or may run, more than `trips` times into an outer loop over pieces and
/// an inner one over the at most `trips` trips of a piece. The kernel computes the same. A VJP then keeps the carried values
/// of both loops, those of the inner one only for one piece at a time.
void stripMine(Item& kernel, int64_t trips);

/// Remarks on ops through which a float flows to a result, but its gradient does not:
/// - a tgk.bitcast: its result is no step function, unlike that of a cast or tgk.floor, so the gradient lacks a part;
/// - the first such op on the way from a parameter of `wrt` that therefore has no gradient.
/// Indices, conditions and tgk.stop_gradient do not count as flow.
std::vector<Diagnostic> findCuts(const Item& kernel, const Activity& activity,
                                 const std::vector<const Value*>& wrt, const std::vector<const Value*>& of);

/// Moves a load of a buffer that the kernel does not write in front of the ifs around it, if its index is uniform in the
/// workgroup, known there, and in range whatever the conditions of these ifs are. A gradient through the load then needs one
/// addition for the workgroup instead of one for each invocation that passes the guard.
void liftUniformLoads(Item& kernel);

}  // namespace tg
