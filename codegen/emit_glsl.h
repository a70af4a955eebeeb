// SPDX-License-Identifier: Apache-2.0
// Prints all kernels of a module as GLSL text.
#pragma once

#include <string>

#include "ir/module.h"
#include "ir/result.h"

namespace tg {

/// The GLSL of every kernel of a module of stage kernel or spirv, each under a line `// kernel @name`. The error
/// lists every kernel that cannot be printed.
Result<std::string> emitGlsl(const Module& module);

}  // namespace tg
