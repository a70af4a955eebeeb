// SPDX-License-Identifier: Apache-2.0
// Checks what a kernel asks of a target beyond its limits of amounts.
#pragma once

#include "ir/module.h"
#include "ir/result.h"
#include "ir/target.h"

namespace tg {

/// An error for each op or parameter that needs a feature the target lacks, at its place:
/// `tgk.subgroup_reduce [kernel.feature]: needs `subgroups`, which target 'vulkan-min' lacks`.
/// Atomic additions of f32 have a fallback and need none.
Result<void> checkFeatures(const Item& kernel, const Target& target);

/// Ends loops in lanes without an invocation, if the target limits the iterations of all lanes together (clampLoops).
void endLoops(Item& kernel, const Target& target);

/// Unrolls loops by repeating their bodies, if an invocation could make more iterations than the target's
/// `loop_iterations`. False if the number of iterations depends on data, so that the kernel must check it at run
/// time. An error if there are too many iterations in any case.
Result<bool> fitLoops(Item& kernel, const Target& target);

}  // namespace tg
