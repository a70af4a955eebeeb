// SPDX-License-Identifier: Apache-2.0
// Joins of kernels' results that nobody makes: their readers find the pieces one behind the other in memory.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <regex>
#include <string>

#include "ir/parser.h"
#include "runtime/interp/tolerance.h"
#include "test/unit/sweep_runs.h"

namespace tg::test {
namespace {

/// Three pieces of heads, side by side in the rows of what a product and a sum read, in another order than written.
constexpr const char* kHeads = R"(module @m {
  func @f(%a: tensor<2x3x8x16xf32>, %b: tensor<2x3x8x16xf32>, %c: tensor<2x3x8x16xf32>, %w: tensor<144x20xf32>) -> (y: tensor<2x8x20xf32>, s: tensor<144xf32>) {
    %v_f32 = tg.softmax %c : tensor<2x3x8x16xf32>
    %v_bf16 = tg.cast %v_f32 : tensor<2x3x8x16xbf16>
    %v = tg.cast %v_bf16 : tensor<2x3x8x16xf32>
    %q_f32 = tg.softmax %a : tensor<2x3x8x16xf32>
    %q_bf16 = tg.cast %q_f32 : tensor<2x3x8x16xbf16>
    %q = tg.cast %q_bf16 : tensor<2x3x8x16xf32>
    %k_f32 = tg.softmax %b : tensor<2x3x8x16xf32>
    %k_bf16 = tg.cast %k_f32 : tensor<2x3x8x16xbf16>
    %k = tg.cast %k_bf16 : tensor<2x3x8x16xf32>
    %q_t = tg.transpose %q {perm = [0, 2, 1, 3]} : tensor<2x8x3x16xf32>
    %q_rows = tg.reshape %q_t {shape = [2, 8, 48]} : tensor<2x8x48xf32>
    %q_pad = tg.pad %q_rows {low = [0, 0, 0], high = [0, 0, 96]} : tensor<2x8x144xf32>
    %k_t = tg.transpose %k {perm = [0, 2, 1, 3]} : tensor<2x8x3x16xf32>
    %k_rows = tg.reshape %k_t {shape = [2, 8, 48]} : tensor<2x8x48xf32>
    %k_pad = tg.pad %k_rows {low = [0, 0, 48], high = [0, 0, 48]} : tensor<2x8x144xf32>
    %v_t = tg.transpose %v {perm = [0, 2, 1, 3]} : tensor<2x8x3x16xf32>
    %v_rows = tg.reshape %v_t {shape = [2, 8, 48]} : tensor<2x8x48xf32>
    %v_pad = tg.pad %v_rows {low = [0, 0, 96], high = [0, 0, 0]} : tensor<2x8x144xf32>
    %vk = tg.add %v_pad, %k_pad : tensor<2x8x144xf32>
    %d_f32 = tg.add %vk, %q_pad : tensor<2x8x144xf32>
    %d_bf16 = tg.cast %d_f32 : tensor<2x8x144xbf16>
    %d = tg.cast %d_bf16 : tensor<2x8x144xf32>
    %y = tg.matmul %d, %w : tensor<2x8x20xf32>
    %s = tg.sum %d {axes = [0, 1]} : tensor<144xf32>
    return %y, %s : tensor<2x8x20xf32>, tensor<144xf32>
  }
}
)";

class ReadJoins : public ::testing::TestWithParam<const char*> {};

TEST_P(ReadJoins, MeanTheSame) {
  // What memory holds, of the parameter's type.
  const std::string text = std::regex_replace(kHeads, std::regex("xbf16>"), fmt::format("x{}>", GetParam()));
  auto parsed = parse(text, "heads.tgir");
  ASSERT_TRUE(parsed) << parsed.error().str();
  const Module& module = **parsed;
  Target target = shippedTarget("lavapipe");  // its limits, so that it runs the kernels
  target.name = "staging";
  target.matmul = "shared";
  Stages stages = stagesOf(module, target);
  ASSERT_TRUE(stages.fused && stages.planned && stages.spirv);
  int kernels = 0;
  for (const Op* op : stages.fused->func("f")->body.ops) kernels += op->code == Opcode::fused;
  EXPECT_EQ(kernels, 5) << print(*stages.fused);  // three softmaxes, a product, a sum
  Arrays inputs;
  uint32_t state = 7;
  for (const auto& arg : module.func("f")->body.args) {
    NdArray& array = inputs[arg->name];
    array.type = arg->type;
    for (int64_t i = 0; i < arg->type.elements(); ++i)
      array.data.push_back(double((state = state * 1664525 + 1013904223) >> 8) / (1 << 23) - 1);
  }
  InterpOptions rounded, lanes;
  rounded.mode = InterpMode::exact;
  lanes.kernel = laneOrder(2);
  const Results wide = interpret(module, "f", inputs), exact = interpret(module, "f", inputs, {}, rounded);
  Gpu gpu;
  const std::vector<Results> device = gpu.run(*stages.spirv, {"f"}, {inputs});
  ASSERT_EQ(device.size(), 1u);
  for (const Results& got : {interpret(*stages.fused, "f", inputs), interpret(*stages.planned, "f", inputs),
                             interpret(*stages.spirv, "f", inputs, {}, lanes), device[0]})
    for (const auto& [name, want] : wide) {
      std::string why;
      EXPECT_TRUE(wholeFunctionClose(got.at(name), want, exact.at(name), kWholeFunctionFloor, &why))
          << name << ": " << why;
    }
}

INSTANTIATE_TEST_SUITE_P(Types, ReadJoins, ::testing::Values("bf16", "f16", "f32"));

}  // namespace
}  // namespace tg::test
