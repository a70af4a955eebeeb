// SPDX-License-Identifier: Apache-2.0
// Targets in tg-run's verbs: given by name, by a file, or by a device.
#include <cstdio>

#include <fmt/format.h>

#include "runtime/matrix_units.h"
#include "tools/driver/cache_folder.h"
#include "tools/driver/cli.h"
#include "tools/driver/run_setup.h"

namespace tg {

Result<Target> takeTarget(const std::string& text, const Module& module) {
  TG_TRY(const Target given, readTarget(text));
  if (module.stage == Stage::tensor) return given;
  TG_TRY(const Target own, targetOf(module.attrs));
  if (targetToJson(own) == targetToJson(given)) return given;
  return usageError("--target={}: the module is of stage {} and compiled for '{}' already; another target "
                    "needs one of stage tensor",
                    text, name(module.stage), own.name);
}

Result<vulkan::DeviceInfo> chosenDevice(const std::string& select) {
  TG_TRY(std::vector<vulkan::DeviceInfo> devices, vulkan::listDevices());
  TG_TRY(const vulkan::Selection chosen, vulkan::selectDevice(devices, select));
  return std::move(devices[static_cast<size_t>(chosen.index)]);
}

Result<Target> deviceTarget() {
  TG_TRY(const vulkan::DeviceInfo info, chosenDevice("auto"));
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
