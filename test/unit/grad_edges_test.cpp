// SPDX-License-Identifier: Apache-2.0
// Gradients where differences cannot tell them: at bounds and ties, for powers of bases that are not
// positive, in rows of -inf. Expected values are worked out by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ir/parser.h"
#include "ir/verify.h"
#include "passes/pass.h"
#include "runtime/interp/interp.h"

namespace tg::test {
namespace {

NdArray vector(std::vector<double> data) {
  NdArray out = NdArray::zeros(Type::tensor(DType::f32, {static_cast<int64_t>(data.size())}));
  out.data = std::move(data);
  return out;
}

/// The gradient with respect to %WRT of Σ weight·r for a line that defines %r : T from %x and %y, all vectors
/// of the type T.
std::vector<double> gradient(const std::string& line, const std::string& wrt, const std::vector<double>& x,
                             const std::vector<double>& y, const std::vector<double>& weight) {
  std::string text = "module @m {\n param @p : tensor<f32>\n func @train(%x: T, %y: T, %w: T) -> (loss: "
                     "tensor<f32>, dx: T) {\n  " +
                     line +
                     "\n  %weighted = tg.mul %r, %w : T\n  %s = tg.sum %weighted {axes = [0]} : "
                     "tensor<f32>\n  %d = tg.grad %s, %" +
                     wrt + " : T\n  return %s, %d : tensor<f32>, T\n }\n}\n";
  const std::string type = "tensor<" + std::to_string(x.size()) + "xf32>";
  for (size_t at; (at = text.find(": T")) != std::string::npos;) text.replace(at, 3, ": " + type);
  for (size_t at; (at = text.find(", T\n")) != std::string::npos;) text.replace(at, 3, ", " + type);
  auto module = parse(text, "edge.tgir");
  EXPECT_TRUE(module) << (module ? "" : module.error().str());
  if (!module) return {};
  auto valid = verify(**module);
  EXPECT_TRUE(valid) << (valid ? "" : valid.error().str());
  auto expanded = run_append_grad(**module, {}, {});
  EXPECT_TRUE(expanded) << (expanded ? "" : expanded.error().str());
  auto interpreter = Interpreter::create(**module);
  auto run = interpreter->run("train", {{"x", vector(x)}, {"y", vector(y)}, {"w", vector(weight)}});
  EXPECT_TRUE(run) << (run ? "" : run.error().str());
  return run ? run->results.at(1).second.data : std::vector<double>{};
}

void expectNear(const std::vector<double>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-7) << "element " << i;
}

TEST(GradEdges, ClampPassesAtItsBounds) {
  expectNear(gradient("%r = tg.clamp %x {lo = -1.0, hi = 2.0} : T", "x", {-3, -1, 0, 2, 5}, {0, 0, 0, 0, 0},
                      {1, 2, 3, 4, 5}),
             {0, 2, 3, 4, 0});
}

TEST(GradEdges, ActivationsAtZero) {
  const std::vector<double> x = {-2, 0, 3}, none = {0, 0, 0}, w = {1, 1, 1};
  expectNear(gradient("%r = tg.leaky_relu %x {slope = 0.25} : T", "x", x, none, w), {0.25, 0.25, 1});
  expectNear(gradient("%r = tg.softplus %x : T", "x", x, none, w),
             {1 / (1 + std::exp(2)), 0.5, 1 / (1 + std::exp(-3))});
  // The branch not taken is not 0·∞ either.
  expectNear(gradient("%r = tg.elu %x {alpha = 0.5} : T", "x", {-2, 0, 1000}, none, w),
             {0.5 * std::exp(-2), 0.5, 1});
  expectNear(gradient("%r = tg.mish %x : T", "x", {-1000, 0, 1000}, none, w), {0, 0.6, 1});
  expectNear(gradient("%r = tg.silu %x : T", "x", {-1000, 0, 1000}, none, w), {0, 0.5, 1});
}

TEST(GradEdges, TiesOfMinMaxAndMinReduce) {
  expectNear(gradient("%r = tg.min %x, %y : T", "x", {1, 2, 3}, {1, 3, 2}, {1, 1, 1}), {1, 1, 0});
  expectNear(gradient("%r = tg.max %x, %y : T", "y", {1, 2, 3}, {1, 3, 2}, {1, 1, 1}), {0, 1, 0});
  expectNear(
      gradient(
          "%m = tg.min_reduce %x {axes = [0]} : tensor<f32>\n  %r = tg.broadcast_to %m {shape = [4]} : T",
          "x", {2, 1, 5, 1}, {0, 0, 0, 0}, {1, 2, 3, 4}),
      {0, 5, 0, 5});
}

TEST(GradEdges, PowersOfAnyBase) {
  const std::vector<double> x = {2, -2, -2, -2, 0, 0, 0, 2}, y = {3, 3, 2, 0, 2, 1, 0, 0},
                            w = {1, 1, 1, 1, 1, 1, 1, 1};
  expectNear(gradient("%r = tg.pow %x, %y : T", "x", x, y, w), {12, 12, -4, 0, 0, 1, 0, 0});
  expectNear(gradient("%r = tg.pow %x, %y : T", "y", x, y, w),
             {8 * std::log(2), 0, 0, 0, 0, 0, 0, std::log(2)});
}

// The second derivative of x^y by x is y(y-1)x^(y-2), also where x is 0 or negative.
TEST(GradEdges, SecondDerivativesOfPowers) {
  expectNear(gradient("%q = tg.pow %x, %y : T\n  %t = tg.sum %q {axes = [0]} : tensor<f32>\n"
                      "  %r = tg.grad %t, %x : T",
                      "x", {2, -2, 0, 0, 0, 0}, {3, 3, 2, 3, 1, 0}, {1, 1, 1, 1, 1, 1}),
             {12, -12, 2, 0, 0, 0});
}

TEST(GradEdges, LogSumExpOfNothing) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::string all = "%m = tg.logsumexp %x {axes = [0]} : tensor<f32>\n  %r = tg.add %m, %y : T";
  expectNear(gradient(all, "x", {-inf, -inf, -inf}, {0, 0, 0}, {1, 0, 0}), {0, 0, 0});
  expectNear(gradient(all, "x", {-inf, 1, 1}, {0, 0, 0}, {1, 1, 0}), {0, 1, 1});
}

TEST(GradEdges, RoundingHandsNothingOn) {
  for (const char* op : {"floor", "ceil", "round"})
    expectNear(gradient(std::string("%q = tg.") + op + " %x : T\n  %r = tg.add %q, %x : T", "x",
                        {0.4, 1, -2.5}, {0, 0, 0}, {1, 2, 3}),
               {1, 2, 3});
}

}  // namespace
}  // namespace tg::test
