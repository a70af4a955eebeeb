// SPDX-License-Identifier: Apache-2.0
// What drivers tell of kernels, in the words of each: one line for people, JSON for programs.
#include <cstdio>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "runtime/vulkan/device_state.h"
#include "runtime/vulkan/statistics.h"

namespace tg::vulkan {
namespace {

using Json = nlohmann::json;

// Names as these drivers give them.
const KernelStatistics kNvidia = {{{"Register Count", 168},
                                   {"Binary Size", 22400},
                                   {"Stack Size", 0},
                                   {"Shared Memory Size", 25190},
                                   {"Local Memory Size", 4294901760.0}},
                                  19354};
const KernelStatistics kRadv = {{{"SGPRs", 32},
                                 {"VGPRs", 96},
                                 {"Spilled SGPRs", 2},
                                 {"Spilled VGPRs", 3},
                                 {"Code size", 4096},
                                 {"LDS size", 16384},
                                 {"Scratch size", 64}},
                                16384};
const KernelStatistics kAnv = {{{"Instruction Count", 900},
                                {"Spill Count", 7},
                                {"Fill Count", 9},
                                {"Scratch Memory Size", 1024},
                                {"Workgroup Memory Size", 0}},
                               0};
const KernelStatistics kNvk = {{{"Number of GPRs", 40}, {"SLM size", 0}, {"Spills to memory", 0}}, 0};

TEST(Statistics, AreOneLineInTheWordsOfEachDriver) {
  EXPECT_EQ(sentence(kNvidia), "168 registers, shared 24.6 KiB (18.9 declared)") << "some were spilled there";
  EXPECT_EQ(sentence(kRadv), "96 registers, shared 16.0 KiB, 5 spills, 64 bytes of scratch");
  EXPECT_EQ(sentence(kAnv), "7 spills, 1024 bytes of scratch");
  EXPECT_EQ(sentence(kNvk), "40 registers");
}

TEST(Statistics, OfOtherDriversAreToldAsTheyCome) {
  EXPECT_EQ(sentence({{{"Basic blocks", 11}, {"Loops", 2.5}}, 4096}), "Basic blocks 11, Loops 2.5");
  EXPECT_EQ(sentence({{{"a", 1}, {"b", 2}, {"c", 3}, {"d", 4}, {"e", 5}}, 0}), "a 1, b 2, c 3, d 4");
  EXPECT_EQ(sentence({{}, 4096}), "") << "the driver tells nothing";
}

TEST(Statistics, OfSeveralProgramsAreNotAddedUp) {
  const KernelStatistics two = {{{"SIMD16: Spill Count", 7}, {"SIMD32: Spill Count", 70}}, 0};
  EXPECT_FALSE(two.spills());
  EXPECT_EQ(sentence(two), "SIMD16: Spill Count 7, SIMD32: Spill Count 70");
}

/// A driver of two programs, of which the second tells two figures more.
struct FakeDriver {
  static constexpr uint32_t kPrograms = 2;
  static VkResult VKAPI_CALL programs(VkDevice, const VkPipelineInfoKHR*, uint32_t* count,
                                      VkPipelineExecutablePropertiesKHR* out) {
    for (uint32_t i = 0; out && i < *count; ++i)
      std::snprintf(out[i].name, sizeof out[i].name, "SIMD%u", 16 << i);
    if (!out) *count = kPrograms;
    return VK_SUCCESS;
  }
  static VkResult VKAPI_CALL one(VkDevice device, const VkPipelineInfoKHR* info, uint32_t* count,
                                 VkPipelineExecutablePropertiesKHR* out) {
    if (!out) return *count = 1, VK_SUCCESS;
    return programs(device, info, count, out);
  }
  static VkResult VKAPI_CALL figures(VkDevice, const VkPipelineExecutableInfoKHR* info, uint32_t* count,
                                     VkPipelineExecutableStatisticKHR* out) {
    if (!out) return *count = info->executableIndex == 0 ? 2 : 4, VK_SUCCESS;
    auto set = [&](uint32_t at, const char* name, VkPipelineExecutableStatisticFormatKHR format) {
      if (at >= *count) return;
      std::snprintf(out[at].name, sizeof out[at].name, "%s", name);
      out[at].format = format;
    };
    set(0, "Register Count", VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR);
    out[0].value.u64 = 96 + info->executableIndex;
    set(1, "Offset", VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR);
    out[1].value.i64 = -5;
    set(2, "Waits", VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR);
    set(3, "Share", VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_FLOAT64_KHR);
    if (*count == 4) out[2].value.b32 = VK_TRUE, out[3].value.f64 = 0.5;
    return VK_SUCCESS;
  }
  static VkResult VKAPI_CALL noMemory(VkDevice, const VkPipelineInfoKHR*, uint32_t*,
                                      VkPipelineExecutablePropertiesKHR*) {
    return VK_ERROR_OUT_OF_HOST_MEMORY;
  }
};

std::string toldBy(PFN_vkGetPipelineExecutablePropertiesKHR programs) {
  DeviceState state;
  state.device.vk.vkGetPipelineExecutablePropertiesKHR = programs;
  state.device.vk.vkGetPipelineExecutableStatisticsKHR = FakeDriver::figures;
  std::string out;
  for (const Statistic& each : statisticsOf(state, VK_NULL_HANDLE))
    out += fmt::format("{} {}; ", each.name, each.value);
  return out;
}

TEST(Statistics, AreReadInEveryFormatAndOfEveryProgram) {
  EXPECT_EQ(toldBy(FakeDriver::one), "Register Count 96; Offset -5; ") << "one program has no name in front";
  EXPECT_EQ(toldBy(FakeDriver::programs),
            "SIMD16: Register Count 96; SIMD16: Offset -5; SIMD32: Register Count 97; SIMD32: Offset -5; "
            "SIMD32: Waits 1; SIMD32: Share 0.5; ");
  EXPECT_EQ(toldBy(FakeDriver::noMemory), "") << "it costs the figures and nothing else";
}

TEST(Statistics, JsonHasBothWords) {
  EXPECT_EQ(Json(toJson(kNvidia)), Json::parse(R"({
    "registers": 168, "shared_bytes": 25190, "declared_shared_bytes": 19354, "scratch_bytes": 0,
    "driver_tells": {"Register Count": 168, "Binary Size": 22400, "Stack Size": 0, "Shared Memory Size": 25190,
                     "Local Memory Size": 4294901760}})"));
  EXPECT_EQ(toJson(kRadv)["spills"], 5);
  EXPECT_EQ(toJson({{}, 4096}).dump(), "{}");
}

}  // namespace
}  // namespace tg::vulkan
