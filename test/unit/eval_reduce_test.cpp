// SPDX-License-Identifier: Apache-2.0
// Values of logic, clamps, minima, log-sum-exp and running sums against computations made here.
#include <cmath>
#include <limits>

#include "test/unit/interp_test_support.h"

namespace tg::test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(Logic, TruthTables) {
  const Inputs inputs{{"a", array(DType::i1, {4}, {0, 0, 1, 1})}, {"b", array(DType::i1, {4}, {0, 1, 0, 1})}};
  auto run = [&](const std::string& op) {
    return evaluate("%r = tg." + op + " : tensor<4xi1>", "tensor<4xi1>", inputs).data;
  };
  EXPECT_EQ(run("and %a, %b"), (std::vector<double>{0, 0, 0, 1}));
  EXPECT_EQ(run("or %a, %b"), (std::vector<double>{0, 1, 1, 1}));
  EXPECT_EQ(run("not %a"), (std::vector<double>{1, 1, 0, 0}));
}

TEST(Rounding, EdgesOfFloorCeilRound) {
  const NdArray x = f32({6}, {-1.5, -0.5, 0.5, 1.5, 2.5, 3});
  auto run = [&](const std::string& op) {
    return evaluate("%r = tg." + op + " %x : tensor<6xf32>", "tensor<6xf32>", {{"x", x}}).data;
  };
  EXPECT_EQ(run("floor"), (std::vector<double>{-2, -1, 0, 1, 2, 3}));
  EXPECT_EQ(run("ceil"), (std::vector<double>{-1, 0, 1, 2, 3, 3}));
  EXPECT_EQ(run("round"), (std::vector<double>{-2, 0, 0, 2, 2, 3}));
}

TEST(Composites, ClampLeakyReluAndElu) {
  const NdArray x = f32({5}, {-3, -1, 0, 0.5, kInf});
  expectNear(evaluate("%r = tg.clamp %x {lo = -1.0, hi = 2.0} : tensor<5xf32>", "tensor<5xf32>", {{"x", x}}),
             {-1, -1, 0, 0.5, 2});
  EXPECT_EQ(evaluate("%r = tg.clamp %x {lo = -1.0, hi = 2.0} : tensor<4xi32>", "tensor<4xi32>",
                     {{"x", i32({4}, {-7, -1, 1, 9})}})
                .data,
            (std::vector<double>{-1, -1, 1, 2}));
  const NdArray y = f32({3}, {-2, 0, 4});
  expectNear(evaluate("%r = tg.leaky_relu %x {slope = 0.25} : tensor<3xf32>", "tensor<3xf32>", {{"x", y}}),
             {-0.5, 0, 4});
  const NdArray z = f32({4}, {-kInf, -1e-9, 0, 1000});
  expectNear(evaluate("%r = tg.elu %x {alpha = 0.5} : tensor<4xf32>", "tensor<4xf32>", {{"x", z}}),
             {-0.5, -0.5e-9, 0, 1000});
}

TEST(Reductions, MinimumAndItsIndex) {
  const NdArray x = f32({2, 4}, {5, 2, 7, 2, -1, 3, -4, -4});
  EXPECT_EQ(evaluate("%r = tg.min_reduce %x {axes = [1]} : tensor<2xf32>", "tensor<2xf32>", {{"x", x}}).data,
            (std::vector<double>{2, -4}));
  EXPECT_EQ(evaluate("%r = tg.min_reduce %x {axes = [0, 1], keepdims = true} : tensor<1x1xf32>",
                     "tensor<1x1xf32>", {{"x", x}})
                .data,
            (std::vector<double>{-4}));
  EXPECT_EQ(evaluate("%r = tg.argmin %x {axis = 1} : tensor<2xi32>", "tensor<2xi32>", {{"x", x}}).data,
            (std::vector<double>{1, 2}));
  EXPECT_EQ(evaluate("%r = tg.argmin %x {axis = 0, keepdims = true} : tensor<1x4xi32>", "tensor<1x4xi32>",
                     {{"x", x}})
                .data,
            (std::vector<double>{1, 0, 1, 1}));
}

TEST(Reductions, LogSumExp) {
  const NdArray x = scattered({2, 3, 4});
  std::vector<double> outer(3, 0);
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 3; ++j)
      for (int k = 0; k < 4; ++k) outer[j] += std::exp(x.data[(i * 3 + j) * 4 + k]);
  for (double& value : outer) value = std::log(value);
  expectNear(evaluate("%r = tg.logsumexp %x {axes = [0, 2], keepdims = true} : tensor<1x3x1xf32>",
                      "tensor<1x3x1xf32>", {{"x", x}}),
             outer);
  // Beyond what e^x can hold, and rows that hold nothing or everything.
  const NdArray edges =
      f32({4, 3}, {1000, 1000, -kInf, -kInf, -kInf, -kInf, -1000, -1000, -1000, kInf, 0, -kInf});
  const NdArray rows =
      evaluate("%r = tg.logsumexp %x {axes = [1]} : tensor<4xf32>", "tensor<4xf32>", {{"x", edges}});
  EXPECT_DOUBLE_EQ(rows.data[0], 1000 + std::log(2.0));
  EXPECT_EQ(rows.data[1], -kInf);
  EXPECT_DOUBLE_EQ(rows.data[2], -1000 + std::log(3.0));
  EXPECT_EQ(rows.data[3], kInf);
}

TEST(Reductions, RunningSums) {
  const NdArray x = f32({2, 4}, {1, 2, 3, 4, 10, 20, 30, 40});
  auto run = [&](const std::string& attrs) {
    return evaluate("%r = tg.cumsum %x {" + attrs + "} : tensor<2x4xf32>", "tensor<2x4xf32>", {{"x", x}})
        .data;
  };
  EXPECT_EQ(run("axis = 1"), (std::vector<double>{1, 3, 6, 10, 10, 30, 60, 100}));
  EXPECT_EQ(run("axis = -1, exclusive = true"), (std::vector<double>{0, 1, 3, 6, 0, 10, 30, 60}));
  EXPECT_EQ(run("axis = 1, reverse = true"), (std::vector<double>{10, 9, 7, 4, 100, 90, 70, 40}));
  EXPECT_EQ(run("axis = 1, reverse = true, exclusive = true"),
            (std::vector<double>{9, 7, 4, 0, 90, 70, 40, 0}));
  EXPECT_EQ(run("axis = 0"), (std::vector<double>{1, 2, 3, 4, 11, 22, 33, 44}));
  EXPECT_EQ(evaluate("%r = tg.cumsum %x {axis = 0} : tensor<2xi32>", "tensor<2xi32>",
                     {{"x", i32({2}, {2147483647, 1})}})
                .data,
            (std::vector<double>{2147483647, -2147483648.0}));
}

TEST(Leaves, IntegerMinusZeroIsARealMinusZero) {
  const NdArray r = evaluate("%r = tg.constant dense(-0, 0, -0.0) : tensor<3xf32>", "tensor<3xf32>", {});
  EXPECT_TRUE(std::signbit(r.data[0]));
  EXPECT_FALSE(std::signbit(r.data[1]));
  EXPECT_TRUE(std::signbit(r.data[2]));
  EXPECT_TRUE(std::signbit(evaluate("%r = tg.constant -0 : tensor<f32>", "tensor<f32>", {}).data[0]));
  EXPECT_FALSE(std::signbit(evaluate("%r = tg.constant -0 : tensor<i32>", "tensor<i32>", {}).data[0]));
}

}  // namespace
}  // namespace tg::test
