// GLSL to SPIR-V, validated in process.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/glsl.h"
#include "codegen/shader_cache.h"

namespace tg {

/// How matrices of a subgroup are spelled.
enum class MatrixDialect : uint8_t {
  khr,  ///< GL_KHR_cooperative_matrix, of a device with VK_KHR_cooperative_matrix
  nv,   ///< GL_NV_cooperative_matrix, the first form, of VK_NV_cooperative_matrix
};
/// The newer form that the linked compiler accepts, found by trying once.
MatrixDialect matrixDialect();

struct ShaderOptions {
  /// SPIRV-Tools' performance passes; they leave `precise` arithmetic as it is, and are not run on shaders
  /// with matrices, of which they know too little.
  bool optimize = true;
  ShaderCache* cache = nullptr;  ///< code that was compiled before; null is none
};

/// Compiles a shader for Vulkan 1.1 and validates the words. An error names the kernel, the op behind the
/// offending line and its location, what the compiler said with its line, and holds the numbered text
/// as a note. The code depends on the text, the options and the versions of the compiler, which make the key
/// in the cache, and not on `kernelName`. Callers may compile in several threads at once.
Result<std::vector<uint32_t>> compileGlsl(const GlslText& glsl, const std::string& kernelName,
                                          const ShaderOptions& options = {});

/// SPIR-V as assembly text with friendly names; a message instead when the words are no module.
std::string disassemble(const std::vector<uint32_t>& words);

}  // namespace tg
