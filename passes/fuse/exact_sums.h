// SPDX-License-Identifier: Apache-2.0
// Sums that do not depend on the order of a kernel's invocations.
#pragma once

#include <vector>

#include "ir/module.h"
#include "ir/target.h"
#include "passes/pass.h"

namespace tg::fuse {

/// Rewrites the kernels that a module's functions call so that every f32 buffer with a tgk.atomic_add holds
/// exact sums: kExactWords words of i32 for each element. Loads, stores and additions become those of exact
/// sums; around the tg.custom, generated kernels split an inout's operand into words and round results to
/// f32.
///
///   %g = tg.custom @k(%i, %x) : tensor<8xf32>            // %g accum, atomic_add
///   becomes
///   %g_sums = tg.custom @k(%i, %x) : tensor<8x11xi32>
///   %g = tg.custom @exact_round1(%g_sums) : tensor<8xf32>
///
/// What cannot be rewritten keeps its atomics, and a remark says why: the value before an addition is used,
/// other atomics touch the buffer, its rank is the highest there is, shared memory or a binding would exceed
/// the target.
void makeSumsExact(Module& module, const Target& target, const PassContext& context);

}  // namespace tg::fuse
