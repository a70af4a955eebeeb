// rms_norm and cross_entropy's options against formulas computed here.
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

TEST(CrossEntropy, OneIgnoredRow) {
  const NdArray logits = scattered({5});
  expectNear(crossEntropy(logits, i32({}, {3}), "ignore_index = 3"), {0});
  expectNear(crossEntropy(logits, i32({}, {3}), "ignore_index = 2"), {rowLoss(logits, 0, 5, 3, 0)});
}

}  // namespace
}  // namespace tg::test
