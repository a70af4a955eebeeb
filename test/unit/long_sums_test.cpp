// SPDX-License-Identifier: Apache-2.0
// Sums of many terms, of one sign and of nearly one size, where a chain of additions drifts: every kind of
// reduction and product, on every executor and for each kind of target, within the tolerance table, whose
// bound grows with the logarithm of the count.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <random>

#include "ir/parser.h"
#include "test/unit/op_tolerance.h"
#include "test/unit/sweep_oracle.h"
#include "test/unit/sweep_runs.h"

namespace tg::test {
namespace {

/// Uniform values of an argument.
struct Draw {
  std::string name, type;
  double lo = 0.5, hi = 1;
};
struct Sum {
  std::string name;
  std::vector<Draw> inputs;
  std::string op, result;  ///< makes %r
};

std::vector<Sum> sums() {
  // A tenth in binary is rounded the same way in nearly every addition of a chain.
  const double tenth = 0.1;
  std::vector<Sum> out = {
      {"columns", {{"x", "65536x8xf32"}}, "tg.sum %x {axes = [0]}", "8xf32"},
      {"equal terms", {{"x", "100000xf32", tenth, tenth}}, "tg.sum %x {axes = [0]}", "f32"},
      {"equal columns", {{"x", "30000x20xf32", tenth, tenth}}, "tg.mean %x {axes = [0]}", "20xf32"},
      {"a prime", {{"x", "3x65537xf32"}}, "tg.sum %x {axes = [1]}", "3xf32"},
      {"planes", {{"x", "40x6x50x30xf32", tenth, tenth}}, "tg.sum %x {axes = [0, 2, 3]}", "6xf32"},
      {"a plane's columns", {{"x", "300x5x70xf32", tenth, tenth}}, "tg.sum %x {axes = [0, 2]}", "5xf32"},
      {"many rows", {{"x", "400x5000xf32", tenth, tenth}}, "tg.mean %x {axes = [1]}", "400xf32"},
      {"product", {{"a", "24x4096xf32"}, {"b", "4096x40xf32"}}, "tg.matmul %a, %b", "24x40xf32"},
      {"equal product",
       {{"a", "32x3000xf32", tenth, tenth}, {"b", "3000x32xf32", 1, 1}},
       "tg.matmul %a, %b",
       "32x32xf32"},
      {"product of few", {{"a", "3x5003xf32"}, {"b", "5003x5xf32"}}, "tg.matmul %a, %b", "3x5xf32"},
      {"transposed",
       {{"a", "2500x16xf32", tenth, tenth}, {"b", "2500x48xf32"}},
       "tg.matmul %a, %b {transpose_a = true}",
       "16x48xf32"},
      {"scatter",
       {{"i", "20000xi32", 0, 2}, {"u", "20000x4xf32", tenth, tenth}},
       "tg.scatter_add %i, %u {rows = 3}",
       "3x4xf32"},
      {"wide scatter",
       {{"i", "16384xi32", 0, 2}, {"u", "16384x4xf32", tenth, tenth}},
       "tg.scatter_add %i, %u {rows = 300}",
       "300x4xf32"},
      {"weights",
       {{"x", "8x2x40x40xf32", tenth, tenth}, {"y", "8x3x40x40xf32"}},
       "tg.conv2d_grad_weight %x, %y {kernel_size = [3, 3], padding = [1, 1]}",
       "3x2x3x3xf32"},
      {"logarithm of a sum", {{"x", "300000xf32"}}, "tg.logsumexp %x {axes = [0]}", "f32"},
      {"classes",
       {{"x", "2x50257xf32"}, {"i", "2xi32", 0, 50256}},
       "tg.cross_entropy %x, %i {reduction = none}",
       "2xf32"},
      {"rows about 10000",
       {{"x", "3x6000xf32", 9999, 10001}, {"g", "6000xf32"}, {"b", "6000xf32"}},
       "tg.layer_norm %x, %g, %b",
       "3x6000xf32"},
  };
  return out;
}

Arrays drawn(const Module& module, const std::vector<Draw>& inputs) {
  std::mt19937 random(7);
  Arrays out;
  for (const Draw& input : inputs) {
    const Type& type = (*std::find_if(module.func("f")->body.args.begin(), module.func("f")->body.args.end(),
                                      [&](const auto& arg) { return arg->name == input.name; }))
                           ->type;
    NdArray array = NdArray::zeros(type);
    for (double& value : array.data) {
      const double unit = (random() + 0.5) / 4294967296.0;
      value = type.dtype == DType::i32 ? std::floor(input.lo + (input.hi - input.lo + 1) * unit)
                                       : input.lo + (input.hi - input.lo) * unit;
    }
    roundAll(array);
    out.emplace(input.name, std::move(array));
  }
  return out;
}

class LongSums : public ::testing::TestWithParam<std::string> {};
TEST_P(LongSums, StayWithinTheTable) {
  Gpu gpu;
  for (const Sum& sum : sums()) {
    SCOPED_TRACE(sum.name);
    std::string arguments;
    for (const Draw& input : sum.inputs)
      arguments += fmt::format("{}%{}: tensor<{}>", arguments.empty() ? "" : ", ", input.name, input.type);
    const std::string text = fmt::format(
        "module @m {{\n  func @f({}) -> (r: tensor<{}>) {{\n    %r = {} : tensor<{}>\n    return %r : "
        "tensor<{}>\n  }}\n}}\n",
        arguments, sum.result, sum.op, sum.result, sum.result);
    auto tensor = parse(text, "sums.tgir");
    ASSERT_TRUE(tensor) << tensor.error().str();
    const Arrays inputs = drawn(**tensor, sum.inputs);
    const std::map<std::string, Expected> expected = expectedOf(**tensor, inputs);
    Stages stages = stagesOf(**tensor, shippedTarget(GetParam()));
    ASSERT_TRUE(stages.spirv);
    std::vector<Results> run = gpu.run(*stages.spirv, {"f"}, {inputs});
    ASSERT_EQ(run.size(), 1u);
    const Expected& want = expected.at("r");
    const NdArray& got = run[0].at("r");
    double worst = 0;
    for (size_t i = 0; i < got.data.size(); ++i)
      worst = std::max(worst, std::fabs(got.data[i] - want.value.data[i]) / want.tolerance.data[i]);
    std::cout << fmt::format("  {:<20} {:.3f} of the tolerance\n", sum.name, worst);
    EXPECT_LE(worst, 1) << print(*stages.spirv->all(ItemKind::kernel)[0]);
  }
}
INSTANTIATE_TEST_SUITE_P(Targets, LongSums, ::testing::Values("lavapipe", "gpu", "vulkan-min"),
                         [](const auto& info) {
                           return info.param == "vulkan-min" ? "vulkan_min" : info.param;
                         });

/// The bound is that of blocks of 128 terms and of a chain of their sums.
TEST(LongSumBounds, TheTableGrowsWithTheLogarithm) {
  const OpInfo& op = info(Opcode::sum);
  auto bound = [&](int64_t terms) { return opTolerance(op, terms, 1) / 0x1p-23; };
  EXPECT_NEAR(bound(4), 6, 1e-3);
  EXPECT_NEAR(bound(256), 34, 1e-3);
  EXPECT_LT(bound(int64_t{1} << 16), 100);
  EXPECT_NEAR(bound(int64_t{1} << 37) - bound(int64_t{1} << 30),
              bound(int64_t{1} << 30) - bound(int64_t{1} << 23), 1e-3);
}

}  // namespace
}  // namespace tg::test
