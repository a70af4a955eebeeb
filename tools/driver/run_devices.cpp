// SPDX-License-Identifier: Apache-2.0
// tg-run devices: lists the devices and what the compiler knows about each.

#include <fmt/format.h>

#include "ir/json_text.h"
#include "runtime/matrix_units.h"
#include "tools/driver/cache_folder.h"
#include "tools/driver/run_setup.h"

namespace tg {

namespace {

Json toJson(const vulkan::DeviceInfo& info) {
  Json json = {{"index", info.index},
               {"name", info.name},
               {"type", info.type},
               {"driver", info.driver},
               {"api", info.api},
               {"uuid", info.uuid},
               {"heap_bytes", info.heapBytes},
               {"max_allocation_bytes", info.maxAllocationBytes},
               {"unified_memory", info.unifiedMemory},
               {"float16", info.float16},
               {"timestamps", info.timestamps}};
  if (!info.unusable.empty()) json["unusable"] = info.unusable;
  const auto figures = readMatrixFigures(matrixFile(userCacheFolder(), info));
  if (figures)
    json["matrix_units"] = {
        {"gflops", figures->matrices}, {"gflops_without", figures->scalars}, {"used", matricesPay(*figures)}};
  json["target"] = Json::parse(targetToJson(targetFrom(info, figures)));
  return json;
}

struct Devices : Verb {
  bool json = false;

  void describe(CLI::App& app) override {
    app.description("Lists the Vulkan devices; --json adds the target of each, which fuse reads as a file.");
    app.add_flag("--json", json, "print JSON");
  }
  Result<int> run(CLI::App&, const Arguments&) override {
    TG_TRY(const std::vector<vulkan::DeviceInfo> devices, withCode(exitDevice, vulkan::listDevices()));
    if (json) {
      Json list = Json::array();
      for (const vulkan::DeviceInfo& info : devices) list.push_back(toJson(info));
      fmt::print("{}\n", jsonText(list, 2));
      return exitOk;
    }
    for (const vulkan::DeviceInfo& info : devices) {
      fmt::print("{}  {}  {}  Vulkan {}  {}  {:.1f} GiB  --device={}\n", info.index, info.name, info.type,
                 info.api, info.driver, static_cast<double>(info.heapBytes) / (1 << 30), info.index);
      if (const std::string line = matrixLine(info); !line.empty()) fmt::print("   {}\n", line);
      if (!info.unusable.empty()) fmt::print("   cannot be used: {}\n", info.unusable);
    }
    return exitOk;
  }
};

}  // namespace

std::unique_ptr<Verb> makeDevices() { return std::make_unique<Devices>(); }

}  // namespace tg
