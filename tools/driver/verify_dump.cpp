// SPDX-License-Identifier: Apache-2.0
#include "tools/driver/verify_dump.h"

#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "codegen/glsl.h"
#include "ir/json_text.h"
#include "ir/parser.h"
#include "runtime/data/file_io.h"
#include "runtime/data/npy.h"

namespace tg {

namespace {

Result<void> writeText(const std::filesystem::path& path, const std::string& text) {
  return writeFile(path.string(), std::as_bytes(std::span(text)));
}

std::string describe(const vulkan::DeviceInfo& device, const std::string& function, const KernelStep& step) {
  nlohmann::ordered_json json = {{"device", device.name},
                                 {"driver", device.driver},
                                 {"api", device.api},
                                 {"uuid", device.uuid},
                                 {"function", function},
                                 {"dispatch", step.number},
                                 {"kernel", step.kernel->name},
                                 {"label", step.op->word("label")},
                                 {"source", locString(step.op->loc)}};
  for (const Operand& extent : step.op->keyword("grid")->items) json["grid"].push_back(extent.integer);
  json["workgroup"] = step.kernel->workgroup;
  for (const StepBuffer& buffer : step.buffers)
    if (!buffer.close) json["differs"].push_back({{"buffer", buffer.name}, {"why", buffer.why}});
  json["target"] = nlohmann::ordered_json::parse(targetToJson(device.target));
  return jsonText(json, 2) + "\n";
}

}  // namespace

Result<std::string> dumpStep(const std::string& dir, const std::string& function, const Module& module,
                             const KernelStep& step, const vulkan::DeviceInfo& device) {
  namespace fs = std::filesystem;
  fs::path folder = fs::path(dir) / fmt::format("{}-{}-{}", function, step.number, step.kernel->name);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return fail(fmt::format("cannot make {}: {}", folder.string(), error.message()));
  for (const StepBuffer& buffer : step.buffers) {
    auto path = [&](const char* what) {
      return (folder / fmt::format("{}_{}.npy", what, buffer.name)).string();
    };
    TG_CHECK(writeNpy(path("before"), buffer.before));
    if (!buffer.written || !step.findings.empty()) continue;
    TG_CHECK(writeNpy(path("device"), buffer.device));
    TG_CHECK(writeNpy(path("interp"), buffer.exact));
  }
  TG_CHECK(writeText(folder / "kernel.tgir", print(*step.kernel)));
  TG_TRY(Target target, targetOf(module.attrs));
  TG_TRY(GlslText glsl, printGlsl(*step.kernel, target));
  TG_CHECK(writeText(folder / "kernel.comp", glsl.text));
  if (const Item* binary = module.find(ItemKind::binary, step.kernel->name))
    TG_CHECK(writeFile((folder / "kernel.spv").string(), std::as_bytes(std::span(binary->code))));
  TG_CHECK(writeText(folder / "device.json", describe(device, function, step)));
  return folder.string();
}

}  // namespace tg
