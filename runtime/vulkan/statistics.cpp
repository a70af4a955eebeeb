// SPDX-License-Identifier: Apache-2.0
#include "runtime/vulkan/statistics.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "ir/json_text.h"
#include "runtime/vulkan/device_state.h"

namespace tg::vulkan {

namespace {

// The names of NVIDIA, RADV, NVK and ANV, as far as they have such a figure. NVIDIA's "Local Memory Size" is
// meaningless.
constexpr std::string_view kRegisters[] = {"Register Count", "VGPRs", "Number of GPRs"};
constexpr std::string_view kShared[] = {"Shared Memory Size", "LDS size", "SLM size",
                                        "Workgroup Memory Size"};
constexpr std::string_view kSpills[] = {"Spilled SGPRs", "Spilled VGPRs", "Spills to memory", "Spill Count"};
constexpr std::string_view kScratch[] = {"Stack Size", "Scratch size", "Scratch Memory Size"};

/// The sum of the figures with these names.
template <size_t N>
std::optional<double> sum(const std::vector<Statistic>& told, const std::string_view (&names)[N]) {
  std::optional<double> out;
  for (const Statistic& each : told)
    if (std::ranges::find(names, each.name) != std::end(names)) out = out.value_or(0) + each.value;
  return out;
}

double valueOf(const VkPipelineExecutableStatisticKHR& statistic) {
  switch (statistic.format) {
  case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR: return statistic.value.b32 ? 1 : 0;
  case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR: return static_cast<double>(statistic.value.i64);
  case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR: return static_cast<double>(statistic.value.u64);
  case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_FLOAT64_KHR: return statistic.value.f64;
  default: return 0;
  }
}

}  // namespace

std::optional<double> KernelStatistics::registers() const { return sum(told, kRegisters); }
std::optional<double> KernelStatistics::sharedBytes() const { return sum(told, kShared); }
std::optional<double> KernelStatistics::spills() const { return sum(told, kSpills); }
std::optional<double> KernelStatistics::scratchBytes() const { return sum(told, kScratch); }

std::string sentence(const KernelStatistics& statistics) {
  constexpr size_t kFirst = 4;
  std::string out;
  auto add = [&](const std::string& part) { out += (out.empty() ? "" : ", ") + part; };
  if (const auto count = statistics.registers()) add(fmt::format("{:.0f} registers", *count));
  const auto declared = static_cast<double>(statistics.declaredShared);
  if (const auto bytes = statistics.sharedBytes(); bytes && (*bytes > 0 || declared > 0))
    add(*bytes == declared
            ? fmt::format("shared {:.1f} KiB", *bytes / 1024)
            : fmt::format("shared {:.1f} KiB ({:.1f} declared)", *bytes / 1024, declared / 1024));
  if (const auto count = statistics.spills(); count.value_or(0) > 0)
    add(fmt::format("{:.0f} spills", *count));
  if (const auto bytes = statistics.scratchBytes(); bytes.value_or(0) > 0)
    add(fmt::format("{:.0f} bytes of scratch", *bytes));
  if (!out.empty()) return out;
  for (size_t i = 0; i < std::min(statistics.told.size(), kFirst); ++i)
    add(fmt::format("{} {:g}", statistics.told[i].name, statistics.told[i].value));
  return out;
}

Json toJson(const KernelStatistics& statistics) {
  Json out = Json::object();
  if (statistics.told.empty()) return out;
  auto add = [&](const char* name, std::optional<double> figure) {
    if (figure) out[name] = *figure;
  };
  add("registers", statistics.registers());
  add("shared_bytes", statistics.sharedBytes());
  out["declared_shared_bytes"] = statistics.declaredShared;
  add("spills", statistics.spills());
  add("scratch_bytes", statistics.scratchBytes());
  for (const Statistic& each : statistics.told) out["driver_tells"][each.name] = each.value;
  return out;
}

std::vector<Statistic> statisticsOf(const DeviceState& state, VkPipeline pipeline) {
  const VolkDeviceTable& vk = state.vk();
  auto info = typed<VkPipelineInfoKHR>(VK_STRUCTURE_TYPE_PIPELINE_INFO_KHR);
  info.pipeline = pipeline;
  uint32_t programs = 0;
  if (vk.vkGetPipelineExecutablePropertiesKHR(state.raw(), &info, &programs, nullptr) != VK_SUCCESS)
    return {};
  std::vector<VkPipelineExecutablePropertiesKHR> properties(
      programs,
      typed<VkPipelineExecutablePropertiesKHR>(VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_PROPERTIES_KHR));
  if (vk.vkGetPipelineExecutablePropertiesKHR(state.raw(), &info, &programs, properties.data()) < VK_SUCCESS)
    return {};
  std::vector<Statistic> out;
  for (uint32_t i = 0; i < programs; ++i) {
    auto executable = typed<VkPipelineExecutableInfoKHR>(VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR);
    executable.pipeline = pipeline;
    executable.executableIndex = i;
    uint32_t count = 0;
    if (vk.vkGetPipelineExecutableStatisticsKHR(state.raw(), &executable, &count, nullptr) != VK_SUCCESS)
      continue;
    std::vector<VkPipelineExecutableStatisticKHR> all(
        count, typed<VkPipelineExecutableStatisticKHR>(VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR));
    if (vk.vkGetPipelineExecutableStatisticsKHR(state.raw(), &executable, &count, all.data()) < VK_SUCCESS)
      continue;
    const std::string front = programs > 1 ? std::string(properties[i].name) + ": " : "";
    for (uint32_t at = 0; at < count; ++at) out.push_back({front + all[at].name, valueOf(all[at])});
  }
  return out;
}

}  // namespace tg::vulkan
