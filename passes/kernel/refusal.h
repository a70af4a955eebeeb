// SPDX-License-Identifier: Apache-2.0
// Errors for kernels that have no gradient: which ops are refused, and the text of the errors.
#pragma once

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

}  // namespace tg
