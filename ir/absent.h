// SPDX-License-Identifier: Apache-2.0
// What authors of other languages look for and the ops here spell in another way.
#pragma once

#include <string_view>

namespace tg {

/// How something is written that the kernel language has under no such name, "" for what is not known either. `name`
/// is as its language has it, CUDA, GLSL or Triton: `threadIdx.x`, `__syncthreads`, `tl.arange`, `gl_WorkGroupID`,
/// `tgk.break`.
std::string_view insteadOf(std::string_view name);

/// The same of tensors, whose names are those of PyTorch, NumPy and StableHLO: `torch.where`, `stablehlo.dot_general`,
/// `tg.reduce_max`.
std::string_view insteadOfTensorOp(std::string_view name);

}  // namespace tg
