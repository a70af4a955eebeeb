// SPDX-License-Identifier: Apache-2.0
// GLSL to SPIR-V: shaderc without optimization, a few passes of SPIRV-Tools, validation, and KHR matrices.
#include "codegen/shader.h"

#include <fmt/format.h>

#include <shaderc/shaderc.hpp>
#include <spirv-tools/libspirv.hpp>
#include <spirv-tools/optimizer.hpp>
#include <string_view>

#include "codegen/khr_matrices.h"

namespace tg {
namespace {

constexpr spv_target_env kEnvironment = SPV_ENV_VULKAN_1_1;

/// One compiler for the process: the built-in declarations that it has parsed are kept as long as one exists.
const shaderc::Compiler& compiler() {
  static const shaderc::Compiler kCompiler;
  return kCompiler;
}

/// The text with line numbers.
std::string numbered(const std::string& text) {
  std::string out;
  int number = 0;
  for (size_t start = 0, end; (end = text.find('\n', start)) != std::string::npos; start = end + 1)
    out += fmt::format("{:4}  {}\n", ++number, text.substr(start, end - start));
  return out;
}

/// The line number of the first message `name:LINE: error: …`, or 0.
size_t complainedLine(const std::string& messages, const std::string& name) {
  size_t at = messages.find(name + ":");
  return at == std::string::npos ? 0 : std::strtoul(messages.c_str() + at + name.size() + 1, nullptr, 10);
}

/// The error that `who` refuses the shader, at the op that printed the line.
Error refused(const GlslText& glsl, const std::string& name, const std::string& who, std::string messages,
              size_t line) {
  while (messages.ends_with('\n')) messages.pop_back();
  Loc loc;
  std::string_view op;
  if (line >= 1 && line <= glsl.lineLocs.size()) loc = glsl.lineLocs[line - 1];
  if (line >= 1 && line <= glsl.lineOps.size()) op = glsl.lineOps[line - 1];
  std::string behind = op.empty() ? "" : fmt::format(", printed from {}", op);
  return failAt(loc, "kernel @{}{}: {} refuses the shader: {}", name, behind, who, messages)
      .note(nullptr, "the shader is\n" + numbered(glsl.text));
}

Result<void> validate(const std::vector<uint32_t>& words, const GlslText& glsl, const std::string& name) {
  std::string messages;
  spvtools::SpirvTools tools(kEnvironment);
  tools.SetMessageConsumer(
      [&](spv_message_level_t, const char*, const spv_position_t& position, const char* message) {
        messages += fmt::format("word {}: {}\n", position.index, message);
      });
  if (tools.Validate(words)) return {};
  return refused(glsl, name, "spirv-val", messages, 0);
}

/// Drops names and most copies through variables, two thirds of the words. Variables that loops carry are kept:
/// SPIRV-Tools' performance passes turn them into phis, with which kernels took a fifth longer on Mesa's CPU
/// device, and twice as long to compile; on an NVIDIA device the passes changed no time.
Result<std::vector<uint32_t>> shortened(const std::vector<uint32_t>& words, const GlslText& glsl,
                                        const std::string& name) {
  std::string messages;
  spvtools::Optimizer optimizer(kEnvironment);
  optimizer.SetMessageConsumer([&](spv_message_level_t, const char*, const spv_position_t&,
                                   const char* message) { messages += fmt::format("{}\n", message); });
  optimizer.RegisterPass(spvtools::CreateStripDebugInfoPass())
      .RegisterPass(spvtools::CreateLocalSingleBlockLoadStoreElimPass())
      .RegisterPass(spvtools::CreateLocalSingleStoreElimPass())
      .RegisterPass(spvtools::CreateAggressiveDCEPass());
  spvtools::OptimizerOptions options;
  options.set_run_validator(false);  // the result is validated
  std::vector<uint32_t> made;
  if (optimizer.Run(words.data(), words.size(), &made, options)) return made;
  return refused(glsl, name, "spirv-opt", messages, 0);
}

/// The key of everything that the code depends on. The compiler's version is known from the build, that of
/// SPIRV-Tools at run time.
std::string cacheKey(const GlslText& glsl) {
  return ShaderCache::key(fmt::format("{}\n{}\n{}\n{}{}", TG_SHADERC_VERSIONS,
                                      spvSoftwareVersionDetailsString(), static_cast<int>(kEnvironment),
                                      glsl.khrMatrices ? "khr\n" : "", glsl.text));
}

Result<std::vector<uint32_t>> compiled(const GlslText& glsl, const std::string& kernelName) {
  shaderc::CompileOptions settings;
  settings.SetTargetEnvironment(shaderc_target_env_vulkan, shaderc_env_version_vulkan_1_1);
  settings.SetOptimizationLevel(shaderc_optimization_level_zero);
  auto made = compiler().CompileGlslToSpv(glsl.text.data(), glsl.text.size(), shaderc_compute_shader,
                                          kernelName.c_str(), "main", settings);
  if (made.GetCompilationStatus() != shaderc_compilation_status_success) {
    std::string messages = made.GetErrorMessage();
    return refused(glsl, kernelName, "shaderc", messages, complainedLine(messages, kernelName));
  }
  TG_TRY(auto words, shortened({made.cbegin(), made.cend()}, glsl, kernelName));
  TG_CHECK(validate(words, glsl, kernelName));
  return glsl.khrMatrices ? toKhrMatrices(words) : words;
}

}  // namespace

Result<std::vector<uint32_t>> compileGlsl(const GlslText& glsl, const std::string& kernelName,
                                          ShaderCache* cache) {
  if (!cache) return compiled(glsl, kernelName);
  std::string key = cacheKey(glsl);
  if (auto known = cache->load(key)) return *std::move(known);
  TG_TRY(std::vector<uint32_t> words, compiled(glsl, kernelName));
  cache->store(key, words);
  return words;
}

}  // namespace tg
