// SPDX-License-Identifier: Apache-2.0
// GLSL to SPIR-V, validated in process.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/glsl.h"
#include "codegen/shader_cache.h"

namespace tg {

/// Compiles a shader for Vulkan 1.1 and validates the words; matrices get the KHR form behind that, where the
/// text asks for it. An error names the kernel, the op behind the
/// offending line and its location, what the compiler said with its line, and holds the numbered text
/// as a note. The code depends on the text and the versions of the compiler, which make the key in the
/// cache, and not on `kernelName`; a null cache knows nothing. Callers may compile in several threads at
/// once.
Result<std::vector<uint32_t>> compileGlsl(const GlslText& glsl, const std::string& kernelName,
                                          ShaderCache* cache = nullptr);

/// SPIR-V as assembly text with friendly names; a message instead when the words are no module.
std::string disassemble(const std::vector<uint32_t>& words);

}  // namespace tg
