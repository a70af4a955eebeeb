// SPDX-License-Identifier: Apache-2.0
// All kernels of a module as GLSL text.
#pragma once

#include <string>

#include "ir/module.h"
#include "ir/result.h"

namespace tg {

/// The GLSL of every kernel of a kernel or spirv module, each under a line `// kernel @name`. An error
/// holds every kernel that cannot be printed.
Result<std::string> emitGlsl(const Module& module);

}  // namespace tg
