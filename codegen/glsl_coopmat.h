// SPDX-License-Identifier: Apache-2.0
// Types of matrices in GLSL. Internal to this folder.
#pragma once

#include <string>
#include <vector>

#include "codegen/khr_matrices.h"
#include "ir/type.h"

namespace tg {

/// `fcoopmatNV<16, gl_ScopeSubgroup, tgM16, tgK16>`. Matrices are spelled in the form of
/// GL_NV_cooperative_matrix, which every version of the compiler takes, with the constants that
/// toKhrMatrices reads.
std::string glslMatrix(const Type& type);
/// The declaration of a constant for rows or columns.
std::string glslMatrixExtent(const MatrixExtent& extent);
/// What a shader with matrices requires.
std::vector<const char*> glslMatrixExtensions();

}  // namespace tg
