// SPDX-License-Identifier: Apache-2.0
// rms_norm, rope and cross_entropy's options against formulas computed here.
#include <cmath>

#include "test/unit/interp_test_support.h"

namespace tg::test {
namespace {

TEST(RmsNorm, DividesByTheRootMeanSquare) {
  const NdArray x = scattered({2, 4}), gain = f32({4}, {1, -2, 0.5, 3});
  std::vector<double> expected;
  for (size_t row = 0; row < 2; ++row) {
    double squares = 0;
    for (size_t i = 0; i < 4; ++i) squares += x.data[row * 4 + i] * x.data[row * 4 + i];
    for (size_t i = 0; i < 4; ++i)
      expected.push_back(x.data[row * 4 + i] / std::sqrt(squares / 4 + 0.25) * gain.data[i]);
  }
  expectNear(evaluate("%r = tg.rms_norm %x, %v {eps = 0.25} : tensor<2x4xf32>", "tensor<2x4xf32>",
                      {{"v", gain}, {"x", x}}),
             expected);
}

TEST(Rope, TurnsPairsByTheirPosition) {
  const NdArray q = scattered({2, 3, 4}), k = scattered({3, 4});
  auto run = [&](const std::string& result) {
    return evaluate("%a, %b = tg.rope %q, %k {base = 16.0, offset = 5} : tensor<2x3x4xf32>, tensor<3x4xf32>\n"
                    "%r = tg.reshape %" +
                        result + " {shape = [-1]} : tensor<" + (result == "a" ? "24" : "12") + "xf32>",
                    result == "a" ? "tensor<24xf32>" : "tensor<12xf32>", {{"k", k}, {"q", q}})
        .data;
  };
  auto expect = [](const NdArray& x, const std::vector<double>& got) {
    for (size_t row = 0; row < x.data.size() / 4; ++row)
      for (size_t i = 0; i < 2; ++i) {
        // 16^(-2i/4) is 1, then 1/4: its logarithm's f32 costs 1e-7.
        const double angle = (5.0 + static_cast<double>(row % 3)) * (i ? 0.25 : 1.0);
        const double a = x.data[row * 4 + i], b = x.data[row * 4 + i + 2];
        EXPECT_NEAR(got[row * 4 + i], a * std::cos(angle) - b * std::sin(angle), 1e-6);
        EXPECT_NEAR(got[row * 4 + i + 2], b * std::cos(angle) + a * std::sin(angle), 1e-6);
      }
  };
  expect(q, run("a"));
  expect(k, run("b"));
}

// What attention reads of a pair depends on how far apart it is, not on where it stands.
TEST(Rope, ProductsDependOnDistance) {
  auto scores = [](int offset) {
    return evaluate("%a, %b = tg.rope %q, %k {offset = " + std::to_string(offset) +
                        "} : tensor<6x8xf32>, tensor<6x8xf32>\n"
                        "%r = tg.matmul %a, %b {transpose_b = true} : tensor<6x6xf32>",
                    "tensor<6x6xf32>", {{"k", scattered({6, 8})}, {"q", scattered({6, 8})}})
        .data;
  };
  const std::vector<double> here = scores(0), there = scores(1000);
  for (size_t i = 0; i < here.size(); ++i) EXPECT_NEAR(here[i], there[i], 1e-9 * 36);
  const NdArray x = scattered({4, 6});
  const NdArray back =
      evaluate("%a, %b = tg.rope %x, %x {offset = 3} : tensor<4x6xf32>, tensor<4x6xf32>\n"
               "%r, %c = tg.rope %a, %b {offset = 3, inverse = true} : tensor<4x6xf32>, tensor<4x6xf32>",
               "tensor<4x6xf32>", {{"x", x}});
  expectNear(back, x.data);
}

/// What one row costs: (1-s)·nll + s·the mean of -log p over the classes.
double rowLoss(const NdArray& logits, size_t row, size_t classes, double target, double smoothing) {
  const double* x = logits.data.data() + row * classes;
  double total = 0, all = 0;
  for (size_t c = 0; c < classes; ++c) total += std::exp(x[c]);
  for (size_t c = 0; c < classes; ++c) all += std::log(total) - x[c];
  return (1 - smoothing) * (std::log(total) - x[static_cast<size_t>(target)]) +
         smoothing * all / static_cast<double>(classes);
}

NdArray crossEntropy(const NdArray& logits, const NdArray& targets, const std::string& attrs,
                     bool none = false, RunCounters* counters = nullptr) {
  const std::string type = none ? Type::tensor(DType::f32, targets.shape()).str() : "tensor<f32>";
  return evaluate("%r = tg.cross_entropy %x, %t {" + attrs + "} : " + type, type,
                  {{"t", targets}, {"x", logits}}, InterpMode::automatic, counters);
}

// Four classes and these numbers make every weight exact in f32, as the decomposition's constants are.
TEST(CrossEntropy, SmoothsLabels) {
  const NdArray logits = scattered({3, 4}), targets = i32({3}, {3, 0, 2});
  std::vector<double> rows;
  for (size_t row = 0; row < 3; ++row) rows.push_back(rowLoss(logits, row, 4, targets.data[row], 0.25));
  expectNear(crossEntropy(logits, targets, "label_smoothing = 0.25, reduction = none", true), rows);
  expectNear(crossEntropy(logits, targets, "label_smoothing = 0.25, reduction = sum"),
             {rows[0] + rows[1] + rows[2]});
  expectNear(crossEntropy(logits, targets, "label_smoothing = 0.25"), {(rows[0] + rows[1] + rows[2]) / 3});
  // A target outside the classes costs nothing, but its row counts.
  expectNear(crossEntropy(logits, i32({3}, {3, 7, 2}), "label_smoothing = 0.25"), {(rows[0] + rows[2]) / 3});
}

TEST(CrossEntropy, IgnoredRowsDoNotCount) {
  const NdArray logits = scattered({4, 4}), targets = i32({4}, {3, 1, 2, 1});
  for (double smoothing : {0.0, 0.5}) {
    const std::string attrs = "ignore_index = 1, label_smoothing = " + std::to_string(smoothing);
    const double a = rowLoss(logits, 0, 4, 3, smoothing), b = rowLoss(logits, 2, 4, 2, smoothing);
    expectNear(crossEntropy(logits, targets, attrs), {(a + b) / 2});
    expectNear(crossEntropy(logits, targets, attrs + ", reduction = sum"), {a + b});
    expectNear(crossEntropy(logits, targets, attrs + ", reduction = none", true), {a, 0, b, 0});
    expectNear(crossEntropy(logits, i32({4}, {1, 1, 1, 1}), attrs), {0});
  }
}

// An ignored target outside the classes is no mistake to be counted; another one is.
TEST(CrossEntropy, CountsOnlyTargetsThatNobodyMeant) {
  RunCounters counters;
  const NdArray logits = scattered({4, 5}), targets = i32({4}, {-100, 1, 9, -100});
  const double a = rowLoss(logits, 1, 5, 1, 0);
  expectNear(crossEntropy(logits, targets, "ignore_index = -100", false, &counters), {a / 2});
  EXPECT_EQ(counters.outOfRange, 1);
}

// -1 is no u32: what marks an ignored row may not be a negative number.
TEST(CrossEntropy, TargetsMayBeUnsigned) {
  const NdArray logits = scattered({4, 4});
  const NdArray targets{Type::tensor(DType::u32, {4}), {3, 1, 2, 4294967295.0}};
  for (double smoothing : {0.0, 0.5}) {
    const std::string attrs = "label_smoothing = " + std::to_string(smoothing);
    const double a = rowLoss(logits, 0, 4, 3, smoothing), b = rowLoss(logits, 1, 4, 1, smoothing),
                 c = rowLoss(logits, 2, 4, 2, smoothing);
    expectNear(crossEntropy(logits, targets, attrs), {(a + b + c) / 4});
    expectNear(crossEntropy(logits, targets, attrs + ", ignore_index = 1"), {(a + c) / 3});
    expectNear(crossEntropy(logits, targets, attrs + ", ignore_index = 4294967295"), {(a + b + c) / 3});
  }
}

// The model may give anything for what does not count, as for the tokens of a padding.
TEST(CrossEntropy, NoGradientOfIgnoredRowsThatAreNoNumbers) {
  NdArray logits = scattered({4, 4});
  for (size_t c = 0; c < 4; ++c) {
    logits.data[4 + c] = std::numeric_limits<double>::quiet_NaN();
    logits.data[12 + c] = std::numeric_limits<double>::infinity();
  }
  const NdArray dx = evaluate("%g = tg.constant 1.0 : tensor<f32>\n"
                              "%r = tg.cross_entropy_grad %x, %t, %g {ignore_index = 1} : tensor<4x4xf32>",
                              "tensor<4x4xf32>", {{"t", i32({4}, {3, 1, 2, 7})}, {"x", logits}});
  for (size_t row : {size_t{0}, size_t{2}}) {
    double total = 0;
    for (size_t c = 0; c < 4; ++c) total += std::exp(logits.data[4 * row + c]);
    for (size_t c = 0; c < 4; ++c)
      EXPECT_NEAR(dx.data[4 * row + c], std::exp(logits.data[4 * row + c]) / total - (c == 3 - row / 2),
                  1e-6);
  }
  for (size_t i : {4, 5, 6, 7, 12, 13, 14, 15}) EXPECT_EQ(dx.data[i], 0.0) << i;
}

TEST(CrossEntropy, OneIgnoredRow) {
  const NdArray logits = scattered({5});
  expectNear(crossEntropy(logits, i32({}, {3}), "ignore_index = 3"), {0});
  expectNear(crossEntropy(logits, i32({}, {3}), "ignore_index = 2"), {rowLoss(logits, 0, 5, 3, 0)});
}

}  // namespace
}  // namespace tg::test
