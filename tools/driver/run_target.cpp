// SPDX-License-Identifier: Apache-2.0
// Targets in tg-run's verbs: given by name, by a file, or by a device.
#include <cstdio>

#include <fmt/format.h>

#include "runtime/cache_folder.h"
#include "runtime/matrix_units.h"
#include "tools/driver/cli.h"
#include "tools/driver/run_setup.h"

namespace tg {

int takeTarget(const CLI::App& app, const std::string& text, const Module& module, Target& out) {
  auto given = readTarget(text);
  if (!given) return report(app, targetCode(text), given.error());
  out = *given;
  if (module.stage == Stage::tensor) return exitOk;
  auto own = targetOf(module.attrs);
  if (!own) return report(app, exitInput, own.error());
  if (targetToJson(*own) == targetToJson(out)) return exitOk;
  return report(
      app, exitUsage,
      fmt::format("--target={}: the module is of stage {} and compiled for '{}' already; another target "
                  "wants one of stage tensor",
                  text, name(module.stage), own->name));
}

Result<Target> deviceTarget() {
  TG_TRY(auto devices, vulkan::listDevices());
  TG_TRY(vulkan::Selection chosen, vulkan::selectDevice(devices, "auto"));
  const vulkan::DeviceInfo& info = devices[static_cast<size_t>(chosen.index)];
  return targetFrom(info, readMatrixFigures(matrixFile(userCacheFolder(), info)));
}

Target targetOn(const Module& module, const std::shared_ptr<vulkan::Device>& device, const std::string& cache,
                bool notes) {
  ChosenTarget chosen = targetFor(module, device, cache);
  if (notes && !chosen.note.empty()) fmt::print(stderr, "note: {}\n", chosen.note);
  return std::move(chosen.target);
}

std::string matrixLine(const vulkan::DeviceInfo& device) {
  return matrixLine(device.target, readMatrixFigures(matrixFile(userCacheFolder(), device)));
}

}  // namespace tg
