// SPDX-License-Identifier: Apache-2.0
// Names that authors know from other languages, and what to write here instead.
#pragma once

#include <string_view>

namespace tg {

/// How to write in the kernel language what another language calls `name`; "" if that is not known either. Takes
/// names as CUDA, GLSL or Triton spell them, and ops that the kernel language lacks: `threadIdx.x`, `__syncthreads`,
/// `tl.arange`, `gl_WorkGroupID`, `tgk.break`.
std::string_view insteadOf(std::string_view name);

/// The same for tensor ops, by the names of PyTorch, NumPy and StableHLO: `torch.where`, `stablehlo.dot_general`,
/// `tg.reduce_max`.
std::string_view insteadOfTensorOp(std::string_view name);

}  // namespace tg
