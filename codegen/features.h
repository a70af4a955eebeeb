// SPDX-License-Identifier: Apache-2.0
// What a kernel asks of a target beyond its limits.
#pragma once

#include "ir/module.h"
#include "ir/result.h"
#include "ir/target.h"

namespace tg {

/// An error for each op or parameter that needs a feature the target lacks, at its place:
/// `tgk.subgroup_reduce [kernel.feature]: needs `subgroups`, which target 'vulkan-min' lacks`.
/// Atomic additions of f32 have a fallback and need none.
Result<void> checkFeatures(const Item& kernel, const Target& target);

/// Repeats the bodies of loops where an invocation would make more iterations than the target's
/// `loop_iterations`. False where data decide how many there are, so that the kernel must watch its loops. An
/// error where there are too many for certain.
Result<bool> fitLoops(Item& kernel, const Target& target);

}  // namespace tg
