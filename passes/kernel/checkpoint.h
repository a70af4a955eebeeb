// SPDX-License-Identifier: Apache-2.0
// Long loops in pieces, for checkpoints.
#pragma once

#include "ir/module.h"

namespace tg {

/// Splits every loop with carried values that runs, or may run, more than `trips` times: an outer loop over
/// pieces, an inner one over the at most `trips` of a piece. What the kernel computes stays as it is. A VJP
/// keeps the carried values of the two, the inner one's for one piece at a time.
void stripMine(Item& kernel, int64_t trips);

}  // namespace tg
