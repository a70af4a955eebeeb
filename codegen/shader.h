// SPDX-License-Identifier: Apache-2.0
// Compiles GLSL to SPIR-V and validates it, in process.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/glsl.h"
#include "codegen/shader_cache.h"

namespace tg {

/// Compiles a shader for Vulkan 1.1 and validates the words. Then matrices get the KHR form if the text asks for
/// it.
///
/// An error names the kernel, the op that printed the offending line and its location, and the compiler's message;
/// a note has the numbered text. The code depends on the text and the versions of the compiler, which are the key
/// in the cache, and not on `kernelName`. A null cache holds nothing. Several threads may compile at the same time.
Result<std::vector<uint32_t>> compileGlsl(const GlslText& glsl, const std::string& kernelName,
                                          ShaderCache* cache = nullptr);

}  // namespace tg
