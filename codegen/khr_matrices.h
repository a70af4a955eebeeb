// SPDX-License-Identifier: Apache-2.0
// Rewrites SPIR-V with cooperative matrices from the NV form to the KHR form.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "ir/type.h"

namespace tg {

/// A specialization constant for the rows or columns of a matrix type in GLSL.
struct MatrixExtent {
  uint32_t id = 0;   ///< of the constant
  std::string name;  ///< `tgK16`
  int64_t extent = 0;
  bool operator<(const MatrixExtent& other) const { return id < other.id; }
};

/// The extents of a matrix type. The NV form expresses neither the use of a matrix nor bf16, so these constants
/// encode both: in a product m x k by k x n the matrices have extents (M, K), (K, N) and (M, N), and bf16 has a K
/// and an N of its own. Newer versions of glslang insist that the matrices of a product have the same constants.
std::array<MatrixExtent, 2> matrixExtents(const Type& type);

/// Rewrites a valid module of SPV_NV_cooperative_matrix, whose matrix types have matrixExtents, as one of
/// SPV_KHR_cooperative_matrix. Other modules are returned unchanged. The NV form reaches little more than half of
/// the speed on NVIDIA's devices, other devices only support the KHR form, and shaderc 2023 only writes the NV
/// form.
std::vector<uint32_t> toKhrMatrices(const std::vector<uint32_t>& words);

}  // namespace tg
