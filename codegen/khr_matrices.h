// SPDX-License-Identifier: Apache-2.0
// SPIR-V with matrices of subgroups, from the NV form to the KHR form.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "ir/type.h"

namespace tg {

/// A specialization constant that stands for the rows or the columns of a matrix type in GLSL.
struct MatrixExtent {
  uint32_t id = 0;   ///< of the constant
  std::string name;  ///< `tgK16`
  int64_t extent = 0;
  bool operator<(const MatrixExtent& other) const { return id < other.id; }
};

/// Rows and columns of a matrix type. The NV form has no word for what a matrix is used for, nor for bf16. These
/// constants keep both: of a product m x k by k x n the matrices are (M, K), (K, N) and (M, N), and those of bf16 have
/// a K or N of their own. Newer versions of glslang insist that a product's extents are the same constants.
std::array<MatrixExtent, 2> matrixExtents(const Type& type);

/// Rewrites a valid module of SPV_NV_cooperative_matrix, whose matrix types have matrixExtents, into one of
/// SPV_KHR_cooperative_matrix. Other modules come back as they are. The NV form reaches little more than half of the
/// speed on NVIDIA's devices, others know the KHR form alone, and shaderc 2023 writes only the first.
std::vector<uint32_t> toKhrMatrices(const std::vector<uint32_t>& words);

}  // namespace tg
