// SPDX-License-Identifier: Apache-2.0
// SPIR-V with matrices of subgroups, from the NV form to the KHR form.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/type.h"

namespace tg {

/// The specialization constant that a matrix type's rows are in GLSL. The NV form has no word for what a matrix
/// is used for, nor for bf16: the number of this constant keeps both, and makes types of one shape differ.
uint32_t matrixRowsId(const Type& type);

/// Rewrites a valid module of SPV_NV_cooperative_matrix, whose matrix types have rows by matrixRowsId, into one of
/// SPV_KHR_cooperative_matrix. Other modules come back as they are. The NV form reaches little more than half of the
/// speed on NVIDIA's devices, others know the KHR form alone, and shaderc 2023 writes only the first.
std::vector<uint32_t> toKhrMatrices(const std::vector<uint32_t>& words);

}  // namespace tg
