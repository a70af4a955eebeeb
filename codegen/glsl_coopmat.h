// SPDX-License-Identifier: Apache-2.0
// The types of cooperative matrices in GLSL. Internal to this folder.
#pragma once

#include <string>
#include <vector>

#include "codegen/khr_matrices.h"
#include "ir/type.h"

namespace tg {

/// A matrix type, such as `fcoopmatNV<16, gl_ScopeSubgroup, tgM16, tgK16>`. It has the form of
/// GL_NV_cooperative_matrix, which every version of the compiler accepts, with extents that toKhrMatrices
/// understands.
std::string glslMatrix(const Type& type);
/// The declaration of the specialization constant of an extent.
std::string glslMatrixExtent(const MatrixExtent& extent);
/// The extensions that a shader with matrices requires.
std::vector<const char*> glslMatrixExtensions();

}  // namespace tg
