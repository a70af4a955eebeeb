// spirv-emit: every kernel gets its SPIR-V.
//
//   kernel @k0_relu(…) … { … }
// becomes
//   kernel @k0_relu(…) … { … }
//   binary @k0_relu {kernel_hash = "8c3f…", modes = [in, out]} "AwIjBw…"
//
// Requires: stage planned, which is lowered first, or kernel. Ensures: each kernel has a validated binary
// beside it that carries the hash of its text; functions are as lower-kernels leaves them. With
// emit=kernel or emit=glsl the module stays at stage kernel; the tool writes the GLSL.
//
// It stands last: nothing that a device's compiler says flows back into the text.

#include <fmt/format.h>

#include <atomic>
#include <thread>

#include "codegen/glsl.h"
#include "codegen/shader.h"
#include "ir/kernel/legalize.h"
#include "ir/verify_dispatch.h"
#include "passes/pass.h"

namespace tg {
namespace {

Result<std::unique_ptr<Item>> compile(const Item& kernel, const Target& target) {
  TG_TRY(GlslText glsl, printGlsl(kernel, target));
  TG_TRY(std::vector<uint32_t> words, compileGlsl(glsl, kernel.name));
  auto binary = std::make_unique<Item>();
  binary->kind = ItemKind::binary;
  binary->name = kernel.name;
  binary->loc = kernel.loc;
  binary->code = std::move(words);
  std::vector<Attr> modes;
  for (const auto& arg : kernel.body.args) {
    bool plain = arg->type.mode == BufMode::in || arg->type.mode == BufMode::out;
    // A runtime without the kernel makes a view of the texel's format: texel(f32), texel(f32x4).
    std::string texel = fmt::format("{}{}", name(arg->type.dtype), arg->type.lanes == 4 ? "x4" : "");
    modes.push_back(arg->type.texel ? Attr::call("texel", {Attr::word(texel)})
                                    : Attr::word(plain ? std::string(name(arg->type.mode)) : "inout"));
  }
  binary->attrs = {{"kernel_hash", Attr::string(kernelHash(kernel))},
                   {"modes", Attr::array(std::move(modes))}};
  return binary;
}

/// Compiles all kernels, as many at a time as there are cores.
std::vector<std::optional<Result<std::unique_ptr<Item>>>> compileAll(const std::vector<Item*>& kernels,
                                                                     const Target& target) {
  std::vector<std::optional<Result<std::unique_ptr<Item>>>> binaries(kernels.size());
  std::atomic<size_t> next = 0;
  auto work = [&] {
    for (size_t index = next++; index < kernels.size(); index = next++)
      binaries[index].emplace(compile(*kernels[index], target));
  };
  size_t cores = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> workers;
  for (size_t count = 1; count < std::min(cores, kernels.size()); ++count) workers.emplace_back(work);
  work();
  for (std::thread& worker : workers) worker.join();
  return binaries;
}

}  // namespace

Result<void> run_spirv_emit(Module& module, const SpirvEmitOptions& options, const PassContext& context) {
  if (options.emit != "kernel" && options.emit != "glsl" && options.emit != "spirv")
    return fail(fmt::format("spirv-emit: emit={} is unknown; known: kernel, glsl, spirv", options.emit));
  if (module.stage == Stage::planned) TG_CHECK(run_lower_kernels(module, {}, context));
  std::vector<Item*> kernels = module.all(ItemKind::kernel);
  for (Item* kernel : kernels) legalize(&module, *kernel);
  if (options.emit != "spirv") return {};
  TG_TRY(Target target, targetOf(module.attrs));
  std::vector<std::optional<Result<std::unique_ptr<Item>>>> binaries = compileAll(kernels, target);
  Error errors;
  for (auto& binary : binaries)
    if (!*binary) errors.append(binary->takeError());
  if (!errors.empty()) return errors;
  std::vector<std::unique_ptr<Item>> items;
  size_t next = 0;
  for (auto& item : module.items) {
    bool kernel = item->kind == ItemKind::kernel;
    items.push_back(std::move(item));
    if (kernel) items.push_back(**std::move(binaries[next++]));
  }
  module.items = std::move(items);
  module.stage = Stage::spirv;
  return {};
}

}  // namespace tg
