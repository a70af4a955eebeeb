// SPDX-License-Identifier: Apache-2.0
// Compiles and optimizes a shader: 0 if there is SPIR-V at the end.
#include <shaderc/shaderc.hpp>
#include <spirv-tools/optimizer.hpp>
#include <vector>

int main() {
  shaderc::Compiler compiler;
  auto made = compiler.CompileGlslToSpv("#version 450\nvoid main() {}\n", shaderc_compute_shader, "found");
  if (made.GetCompilationStatus() != shaderc_compilation_status_success) return 1;
  std::vector<uint32_t> code(made.begin(), made.end());
  spvtools::Optimizer optimizer(SPV_ENV_VULKAN_1_2);
  optimizer.RegisterPerformancePasses();
  return optimizer.Run(code.data(), code.size(), &code) && !code.empty() ? 0 : 1;
}
