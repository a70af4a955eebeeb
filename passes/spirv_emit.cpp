// SPDX-License-Identifier: Apache-2.0
// spirv-emit: compiles every kernel to SPIR-V.
//
//   kernel @k0_relu(…) … { … }
// becomes
//   kernel @k0_relu(…) … { … }
//   binary @k0_relu {kernel_hash = "8c3f…", modes = [in, out]} "AwIjBw…"
//
// Requires: stage(planned), which is lowered first, or stage(kernel).
// Ensures: behind each kernel is a validated binary with the hash of the kernel's text; functions are as lower-kernels
//   leaves them. With emit=kernel or emit=glsl the module stays at stage kernel, and the tool writes the GLSL.
// Where: last. Nothing that a device's compiler reports is used by earlier passes.

#include <fmt/format.h>

#include "codegen/glsl.h"
#include "codegen/lower.h"
#include "codegen/shader.h"
#include "ir/all_cores.h"
#include "ir/kernel/rewrites.h"
#include "ir/stopwatch.h"
#include "ir/verify.h"
#include "passes/pass.h"

namespace tg {
namespace {

std::unique_ptr<Item> binaryOf(const Item& kernel, std::vector<uint32_t> words) {
  auto binary = std::make_unique<Item>();
  binary->kind = ItemKind::binary;
  binary->name = kernel.name;
  binary->loc = kernel.loc;
  binary->code = std::move(words);
  binary->attrs = {{"kernel_hash", Attr::string(kernelHash(kernel))}, {"modes", kernelModes(kernel)}};
  return binary;
}

/// Calls `make` for each kernel, on all cores; results are in the order of kernels. An error holds those of all kernels.
template <class T, class Make>
Result<std::vector<T>> makeAll(size_t count, Make make) {
  std::vector<std::optional<Result<T>>> made(count);
  onAllCores(count, [&](size_t index) { made[index].emplace(make(index)); });
  Error errors;
  std::vector<T> out;
  for (auto& each : made) {
    if (*each)
      out.push_back(**std::move(each));
    else
      errors.append(each->takeError());
  }
  if (!errors.empty()) return errors;
  return out;
}

/// Reports the time from its construction to its destruction as a phase.
class PhaseTimer {
 public:
  PhaseTimer(const PassContext& context, const char* name) : context_(context), name_(name) {}
  ~PhaseTimer() { context_.phase(name_, watch_.milliseconds()); }

 private:
  const PassContext& context_;
  const char* name_;
  Stopwatch watch_;
};

Result<std::vector<GlslText>> printAll(const std::vector<Item*>& kernels, const Target& target,
                                       const PassContext& context) {
  PhaseTimer timer(context, "glsl");
  return makeAll<GlslText>(kernels.size(), [&](size_t i) { return printGlsl(*kernels[i], target); });
}

Result<std::vector<std::vector<uint32_t>>> compileAll(const std::vector<Item*>& kernels,
                                                      const std::vector<GlslText>& texts, ShaderCache& cache,
                                                      const PassContext& context) {
  PhaseTimer timer(context, "shaderc");
  return makeAll<std::vector<uint32_t>>(
      kernels.size(), [&](size_t i) { return compileGlsl(texts[i], kernels[i]->name, &cache); });
}

}  // namespace

Result<void> run_spirv_emit(Module& module, const SpirvEmitOptions& options, const PassContext& context) {
  if (options.emit != "kernel" && options.emit != "glsl" && options.emit != "spirv")
    return fail("spirv-emit: emit={} is unknown; known: kernel, glsl, spirv", options.emit);
  TG_TRY(Target target, targetOf(module.attrs));
  if (module.stage == Stage::planned) {
    PhaseTimer timer(context, "lower-kernels");
    TG_CHECK(run_lower_kernels(module, {}, context));
  } else {
    for (Item* kernel : module.all(ItemKind::kernel)) {
      legalize(&module, *kernel);
      TG_TRY(const bool bounded, fitLoops(*kernel, target));
      (void)bounded;  // lower-kernels has made them watch their loops; a session refuses those that do not
    }
  }
  std::vector<Item*> kernels = module.all(ItemKind::kernel);
  if (options.emit != "spirv") return {};
  TG_TRY(std::vector<GlslText> texts, printAll(kernels, target, context));
  ShaderCache cache(options.cache);
  TG_TRY(auto codes, compileAll(kernels, texts, cache, context));
  cache.trim();
  size_t next = 0;
  for (auto& item : module.items.take()) {
    const Item& kernel = *item;
    module.items.push_back(std::move(item));
    if (kernel.kind == ItemKind::kernel) module.items.push_back(binaryOf(kernel, std::move(codes[next++])));
  }
  module.stage = Stage::spirv;
  return {};
}

}  // namespace tg
