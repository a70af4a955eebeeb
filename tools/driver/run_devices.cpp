// SPDX-License-Identifier: Apache-2.0
// tg-run devices: what there is to run on, and what the compiler knows about it.
#include <cstdio>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tools/driver/run_setup.h"

namespace tg {

Result<Target> deviceTarget() {
  TG_TRY(auto devices, vulkan::listDevices());
  TG_TRY(vulkan::Selection chosen, vulkan::selectDevice(devices, "auto"));
  return devices[static_cast<size_t>(chosen.index)].target;
}

namespace {

using Json = nlohmann::ordered_json;

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
  json["target"] = Json::parse(targetToJson(info.target));
  return json;
}

/// `16x16x16 f16 in f32, 16x8x16 f16 in f32`
std::string shapes(const std::vector<CoopShape>& all) {
  std::string out;
  for (const CoopShape& each : all)
    out += fmt::format("{}{}x{}x{} {} in {}", out.empty() ? "" : ", ", each.m, each.n, each.k,
                       name(each.operand), name(each.result));
  return out;
}

struct Devices : Verb {
  bool json = false;

  void describe(CLI::App& app) override {
    app.description("Lists the Vulkan devices; --json adds each one's target, which fuse takes as a file.");
    app.add_flag("--json", json, "print JSON");
  }
  int run(CLI::App& app, const Arguments&) override {
    auto devices = vulkan::listDevices();
    if (!devices) return report(app, exitDevice, devices.error());
    if (json) {
      Json list = Json::array();
      for (const vulkan::DeviceInfo& info : *devices) list.push_back(toJson(info));
      fmt::print("{}\n", list.dump(2));
      return exitOk;
    }
    for (const vulkan::DeviceInfo& info : *devices) {
      fmt::print("{}  {}  {}  Vulkan {}  {}  {:.1f} GiB  --device={}\n", info.index, info.name, info.type,
                 info.api, info.driver, static_cast<double>(info.heapBytes) / (1 << 30), info.index);
      if (!info.target.coopmat.empty())
        fmt::print("   matrix units, {}: {}\n", info.target.matrices, shapes(info.target.coopmat));
      if (!info.unusable.empty()) fmt::print("   cannot be used: {}\n", info.unusable);
    }
    return exitOk;
  }
};

}  // namespace

std::unique_ptr<Verb> makeDevices() { return std::make_unique<Devices>(); }

}  // namespace tg
