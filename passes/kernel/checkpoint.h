// SPDX-License-Identifier: Apache-2.0
// Strip-mines long loops, for checkpoints.
#pragma once

#include "ir/module.h"

namespace tg {

/// Splits every loop with carried values that runs, or may run, more than `trips` times into an outer loop over pieces and
/// an inner one over the at most `trips` trips of a piece. The kernel computes the same. A VJP then keeps the carried values
/// of both loops, those of the inner one only for one piece at a time.
void stripMine(Item& kernel, int64_t trips);

}  // namespace tg
