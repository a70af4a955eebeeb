// SPDX-License-Identifier: Apache-2.0
// Ends the loops of lanes that a workgroup does not fill.
#pragma once

#include <cstdint>

#include "ir/module.h"

namespace tg {

/// For a device that runs `width` lanes at once and limits the iterations of all of them together. If the workgroup's size
/// is no multiple of `width`, lanes without an invocation run along: their ids are out of range, so a loop to `4 - %local`
/// may run 2^32 times in them. Clamps the ends of loops to the most iterations that any invocation makes. Loops with
/// literal or uniform bounds, and those whose trip count is not known, stay as they are. The kernel must verify, its calls
/// be inlined.
void clampLoops(Item& kernel, int64_t width);

}  // namespace tg
