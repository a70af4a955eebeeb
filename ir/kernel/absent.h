// SPDX-License-Identifier: Apache-2.0
// What authors of CUDA, GLSL and Triton look for and the kernel language spells in another way.
#pragma once

#include <string_view>

namespace tg {

/// How something is written that the kernel language has under no such name, "" for what is not known either. `name`
/// is as its language has it: `threadIdx.x`, `__syncthreads`, `tl.arange`, `gl_WorkGroupID`, `tgk.break`.
std::string_view insteadOf(std::string_view name);

}  // namespace tg
