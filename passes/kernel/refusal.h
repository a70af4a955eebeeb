// SPDX-License-Identifier: Apache-2.0
// What a kernel's gradient cannot pass, and how that is said.
#pragma once

#include "ir/result.h"
#include "passes/kernel/activity.h"
#include "passes/kernel/replay.h"

namespace tg {

/// The rows of kernelVjpRefusals(), labelled kernel-vjp.g1, g2, …
enum class Refusal : uint8_t { oldValue, exchange, exact, order, rank, trips, matrix, shared, local };

/// `12:5: error: tgk.atomic_exchange [kernel-vjp.g2]: why`, with the way out as a note.
Error refusal(const Op& op, Refusal which);
Error refusal(const Item& kernel, Refusal which);

/// Errors for all active ops that have no derivative.
Result<void> checkDifferentiable(const KernelFacts& facts, const Activity& activity);
/// Whether a VJP gets from atomics again what the kernel got from them.
Result<void> checkRepeatable(const Item& vjp);

}  // namespace tg
