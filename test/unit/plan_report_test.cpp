// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/plan_report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ir/parser.h"

namespace tg {
namespace {

std::unique_ptr<Module> parsed(const std::string& text) {
  auto module = parse(text, "m.tgir");
  EXPECT_TRUE(module) << (module ? "" : module.error().str());
  return module ? std::move(*module) : nullptr;
}

// a and b are alive together at the second step; c takes the bytes of a, and both are alive at the third.
constexpr const char* kLowered = R"(
module @m stage(kernel) attributes {target = {alignment = 16}, plan = {arena = 768, lower_bound = 768, persistent = 64, io = 512}} {
  param @w : tensor<16xf32> -> @persistent[0]
  buffer @persistent : 64
  buffer @io : 512
  buffer @arena : 768
  func @train(%x: tensor<64xf32> -> @io[0]) -> (y: tensor<64xf32>) {
    tg.dispatch @twice grid(1, 1, 1) args(in(@io[0:256]), out(@arena[0:256])) {label = "a: add"}
    tg.barrier
    tg.dispatch @twice grid(1, 1, 1) args(in(@arena[0:256]), out(@arena[256:256])) {label = "b: add"}
    tg.barrier
    tg.dispatch @twice grid(1, 1, 1) args(in(@arena[256:256]), out(@arena[0:256])) {label = "c: add"}
    tg.barrier
    tg.dispatch @twice grid(1, 1, 1) args(in(@arena[0:256]), out(@io[256:256])) {label = "y: add"}
    %y = tg.home : tensor<64xf32> -> @io[256]
    return %y : tensor<64xf32>
  }
  kernel @twice(%p: buf<64xf32, in>, %q: buf<64xf32, out>) workgroup(64, 1, 1) grid(1) {
    %i = tgk.local_id 0 : u32
    %v = tgk.load %p[%i] : f32
    %s = tgk.add %v, %v : f32
    tgk.store %s, %q[%i]
  }
}
)";

TEST(PlanReport, LifetimesOfALoweredFunction) {
  auto module = parsed(kLowered);
  ASSERT_TRUE(module);
  MemoryReport memory = memoryReport(*module, *module->func("train"));
  ASSERT_EQ(memory.steps.size(), 4U);
  std::vector<int64_t> live;
  for (const auto& step : memory.steps) live.push_back(step.liveBytes);
  EXPECT_EQ(live, (std::vector<int64_t>{256, 512, 512, 256}));
  EXPECT_EQ(memory.peak, 1);
  EXPECT_EQ(memory.peakBytes(), 512);
  EXPECT_EQ(memory.totalBytes(), 64 + 512 + 768);
  EXPECT_EQ(memory.lowerBoundBytes, 768);
  auto largest = memory.liveAtPeak();
  ASSERT_EQ(largest.size(), 2U);
  EXPECT_EQ(largest[0].first, 0);
  EXPECT_EQ(largest[0].last, 1);
  EXPECT_EQ(largest[1].first, 1);
  EXPECT_EQ(largest[1].last, 2);
  EXPECT_EQ(largest[0].source, "m.tgir:8:5");
}

// y is made of a and b, which are no values of their own for whoever reads what lies in @io.
constexpr const char* kAdjoined = R"(
module @m stage(planned) attributes {target = {alignment = 16}, plan = {arena = 0, lower_bound = 0, persistent = 0, io = 1024}} {
  buffer @persistent : 0
  buffer @io : 1024
  buffer @arena : 0
  func @f(%x: tensor<64xf32> -> @io[0]) -> (y: tensor<2x64xf32>, z: tensor<64xf32>) {
    %a, %b, %z = tg.fused (%x = %x) {schedule = map{}} : tensor<64xf32>, tensor<64xf32>, tensor<64xf32> -> @io[256], @io[512], @io[768] {
      %r = tg.relu %x : tensor<64xf32>
      tg.yield %r, %r, %r : tensor<64xf32>, tensor<64xf32>, tensor<64xf32>
    }
    %y = tg.adjoin %a, %b : tensor<2x64xf32> -> @io[256]
    return %y, %z : tensor<2x64xf32>, tensor<64xf32>
  }
}
)";

TEST(PlanReport, WhatStandsSideBySideIsOneValue) {
  auto module = parsed(kAdjoined);
  ASSERT_TRUE(module);
  std::vector<std::pair<std::string, int64_t>> values;
  const MemoryReport memory = memoryReport(*module, *module->func("f"));
  for (const MemoryValue& value : memory.values) values.emplace_back(value.name, value.bytes);
  std::sort(values.begin(), values.end());
  EXPECT_EQ(values, (std::vector<std::pair<std::string, int64_t>>{{"x", 256}, {"y", 512}, {"z", 256}}));
  EXPECT_EQ(memory.steps.size(), 1U);
}

// a and b are written by themselves and read as the group [a, b].
constexpr const char* kGrouped = R"(
module @m stage(kernel) attributes {target = {alignment = 16}, plan = {arena = 768, lower_bound = 768, persistent = 0, io = 512}} {
  buffer @persistent : 0
  buffer @io : 512
  buffer @arena : 768
  func @train(%x: tensor<64xf32> -> @io[0]) -> (y: tensor<64xf32>) {
    tg.dispatch @twice grid(1, 1, 1) args(in(@io[0:256]), out(@arena[0:256])) {label = "a: add"}
    tg.dispatch @twice grid(1, 1, 1) args(in(@io[0:256]), out(@arena[256:256])) {label = "b: add"}
    tg.barrier
    tg.dispatch @sum grid(1, 1, 1) args(in(@arena[0:512]), out(@arena[512:256])) {label = "c: add"}
    tg.barrier
    tg.dispatch @twice grid(1, 1, 1) args(in(@arena[512:256]), out(@io[256:256])) {label = "y: add"}
    %y = tg.home : tensor<64xf32> -> @io[256]
    return %y : tensor<64xf32>
  }
  kernel @twice(%p: buf<64xf32, in>, %q: buf<64xf32, out>) workgroup(64, 1, 1) grid(1) {
    %i = tgk.local_id 0 : u32
    %v = tgk.load %p[%i] : f32
    %s = tgk.add %v, %v : f32
    tgk.store %s, %q[%i]
  }
  kernel @sum(%p: buf<128xf32, in>, %q: buf<64xf32, out>) workgroup(64, 1, 1) grid(1) {
    %i = tgk.local_id 0 : u32
    %v = tgk.load %p[%i] : f32
    tgk.store %v, %q[%i]
  }
}
)";

TEST(PlanReport, MembersOfAGroupAreAliveFromTheirOwnWrites) {
  auto module = parsed(kGrouped);
  ASSERT_TRUE(module);
  MemoryReport memory = memoryReport(*module, *module->func("train"));
  std::vector<int64_t> live;
  for (const auto& step : memory.steps) live.push_back(step.liveBytes);
  EXPECT_EQ(live, (std::vector<int64_t>{256, 512, 768, 256}));
  ASSERT_EQ(memory.liveAtPeak().size(), 3U);
  for (const MemoryValue& value : memory.liveAtPeak()) {
    EXPECT_EQ(value.first, value.offset / 256) << value.offset;
    EXPECT_EQ(value.last, value.offset == 512 ? 3 : 2) << value.offset;
  }
}

TEST(PlanReport, PaddingIsAliveFromItsFillToTheLastReadOfItsGroup) {
  std::string text = kGrouped;
  const auto replace = [&](const std::string& old, const std::string& now) {
    text.replace(text.find(old), old.size(), now);
  };
  // b begins behind 16 bytes that are zeroed in front of a.
  replace("    tg.dispatch @twice", "    tg.fill args(out(@arena[256:16]))\n    tg.dispatch @twice");
  replace("@arena[256:256]", "@arena[272:256]");
  replace("@arena[0:512]", "@arena[0:528]");
  replace("@arena[512:256]", "@arena[528:256]");
  replace("@arena[512:256]", "@arena[528:256]");
  replace("@arena : 768", "@arena : 784");
  auto module = parsed(text);
  ASSERT_TRUE(module);
  MemoryReport memory = memoryReport(*module, *module->func("train"));
  std::vector<int64_t> live;
  for (const auto& step : memory.steps) live.push_back(step.liveBytes);
  EXPECT_EQ(live, (std::vector<int64_t>{16, 272, 528, 784, 256}));
}

TEST(PlanReport, CostsAreThoseOfTheDispatches) {
  auto module = parsed(kLowered);
  ASSERT_TRUE(module);
  PlanReport report = planReport(*module);
  ASSERT_EQ(report.kernels.size(), 1U);
  EXPECT_EQ(report.kernels[0].dispatches, 4);
  EXPECT_EQ(report.kernels[0].label, "a: add");
  EXPECT_DOUBLE_EQ(report.kernels[0].flops, 4 * 64);
  EXPECT_DOUBLE_EQ(report.kernels[0].bytes, 4 * 512);
  auto commands = commandReports(*module, *module->func("train"));
  ASSERT_EQ(commands.size(), 4U);
  EXPECT_DOUBLE_EQ(commands[0].bytes, 512);
  auto json = nlohmann::json::parse(toJson(report));
  EXPECT_EQ(json["memory"]["peak"]["bytes"], 512);
  EXPECT_EQ(json["memory"]["peak"]["at"], "b: add");
  EXPECT_EQ(json["memory"]["peak"]["live"].size(), 2U);
  EXPECT_EQ(json["kernels"][0]["kernel"], "twice");
}

}  // namespace
}  // namespace tg
