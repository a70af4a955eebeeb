// SPDX-License-Identifier: Apache-2.0
// Types of matrices in GLSL. Internal to this folder.
#pragma once

#include <string>
#include <vector>

#include "ir/type.h"

namespace tg {

/// `fcoopmatNV<16, gl_ScopeSubgroup, 16, 16>`, or the KHR form of it.
std::string glslMatrix(const Type& type);
/// What a shader with matrices requires.
std::vector<const char*> glslMatrixExtensions();

}  // namespace tg
