// SPDX-License-Identifier: Apache-2.0
// Gradients against central differences in f64, for every differentiable op of the table, first and
// second order, through the interpreter.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>
#include <set>

#include "ir/parser.h"
#include "ir/verify.h"
#include "passes/grad_rules/grad_rules.h"
#include "passes/pass.h"
#include "passes/rewrite.h"
#include "runtime/interp/interp.h"
#include "test/unit/grad_programs.h"

namespace tg::test {
namespace {

/// Compares gradients, the results after the first, with differences of `f`. The bound covers the
/// rounding of the rules' constants to f32.
void expectDifferences(const std::vector<NdArray>& results, const Program& program, const Inputs& inputs,
                       const std::function<double(const Inputs&)>& f, const std::string& text) {
  ASSERT_EQ(results.size(), program.floats.size() + 1);
  for (size_t i = 0; i < program.floats.size(); ++i) {
    const std::string& name = program.floats[i];
    const std::vector<double>& got = results[i + 1].data;
    std::vector<double> want;
    double scale = 1;
    for (size_t k = 0; k < got.size(); ++k) {
      want.push_back(centralDifference(f, inputs, name, k));
      scale = std::max(scale, std::abs(want.back()));
    }
    for (size_t k = 0; k < got.size(); ++k)
      ASSERT_NEAR(got[k], want[k], kGradientTolerance * scale) << "d/d" << name << "[" << k << "] of\n"
                                                               << text;
  }
}

void checkCase(const GradCase& gradCase, int order, std::mt19937& random) {
  Program program = programOf(gradCase);
  std::string text = withGradients(program, order);
  auto forward = verified(order == 1 ? program.forward() : text), backward = verified(text);
  ASSERT_TRUE(forward && backward);
  ASSERT_TRUE(expand(*backward));
  if (order == 2) {
    // Differences of the first-order gradient, whose own correctness order 1 shows.
    Inputs inputs = drawInputs(*backward, gradCase, random);
    auto f = [&](const Inputs& at) { return evaluate(*backward, at)[0].data[0]; };
    expectDifferences(evaluate(*backward, inputs), program, inputs, f, print(*backward));
    return;
  }
  Inputs inputs = drawInputs(*backward, gradCase, random);
  std::vector<NdArray> results = evaluate(*backward, inputs);
  if (cutsGradient(gradCase.code)) {
    for (double value : results.at(1).data) ASSERT_EQ(value, 0);
    return;
  }
  auto f = [&](const Inputs& at) { return evaluate(*forward, at)[0].data[0]; };
  expectDifferences(results, program, inputs, f, print(*backward));
}

TEST(Grad, EveryDifferentiableOpHasACase) {
  std::set<Opcode> covered;
  for (const GradCase& gradCase : gradCases()) covered.insert(gradCase.code);
  for (int i = 0; i < kOpcodeCount; ++i) {
    auto code = static_cast<Opcode>(i);
    GradKind kind = gradEntry(code).kind;
    bool differentiable =
        kind == GradKind::rule || kind == GradKind::byScalar || kind == GradKind::decomposes;
    if (code == Opcode::custom) continue;  // kernel_grad_tests is about nothing else
    EXPECT_TRUE(!differentiable || covered.count(code)) << info(code).name << " has no gradient case";
    EXPECT_FALSE(gradEntry(code).text.empty()) << info(code).name;
  }
}

TEST(Grad, MatchesCentralDifferences) {
  std::mt19937 random(1);
  for (const GradCase& gradCase : gradCases()) {
    SCOPED_TRACE(gradCase.body);
    checkCase(gradCase, 1, random);
    if (HasFatalFailure()) FAIL() << info(gradCase.code).name;
  }
}

TEST(Grad, GradientsOfGradientsMatchCentralDifferences) {
  std::mt19937 random(2);
  for (const GradCase& gradCase : gradCases()) {
    if (cutsGradient(gradCase.code)) continue;
    SCOPED_TRACE(gradCase.body);
    checkCase(gradCase, 2, random);
    if (HasFatalFailure()) FAIL() << info(gradCase.code).name;
  }
}

TEST(Grad, CompositesAgreeWithTheirDecompositions) {
  std::mt19937 random(3);
  int composites = 0;
  for (const GradCase& gradCase : gradCases()) {
    if (!info(gradCase.code).has(table::composite)) continue;
    ++composites;
    auto fast = verified(withGradients(programOf(gradCase), 1)), plain = clone(*fast);
    expandOps(*plain, *plain->func("train"), [](const Op&) { return true; });
    ASSERT_TRUE(expand(*fast) && expand(*plain));
    Inputs inputs = drawInputs(*fast, gradCase, random);
    std::vector<NdArray> a = evaluate(*fast, inputs), b = evaluate(*plain, inputs);
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i)
      for (size_t k = 0; k < a[i].data.size(); ++k)
        ASSERT_NEAR(a[i].data[k], b[i].data[k], 1e-6 * std::max(1.0, std::abs(b[i].data[k])))
            << gradCase.body;
  }
  EXPECT_GT(composites, 0);
}

void cleanUp(Module& module) {
  EXPECT_TRUE(run_canonicalize(module, {}, {}) && run_cse(module, {}, {}) && run_dce(module, {}, {}));
}

// canonicalize, cse and dce keep the meaning of every case's forward and backward, and a second round
// finds nothing left to do. Folded constants are rounded to f32, hence the bound.
TEST(Cleanup, KeepsMeaningAndSettles) {
  std::mt19937 random(4);
  size_t before = 0, after = 0;
  for (const GradCase& gradCase : gradCases()) {
    auto plain = verified(withGradients(programOf(gradCase), 1));
    ASSERT_TRUE(plain && expand(*plain));
    auto clean = clone(*plain);
    cleanUp(*clean);
    ASSERT_TRUE(verify(*clean)) << print(*clean);
    before += plain->func("train")->body.ops.size(), after += clean->func("train")->body.ops.size();
    Inputs inputs = drawInputs(*plain, gradCase, random);
    std::vector<NdArray> a = evaluate(*plain, inputs), b = evaluate(*clean, inputs);
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i)
      for (size_t k = 0; k < a[i].data.size(); ++k)
        ASSERT_NEAR(a[i].data[k], b[i].data[k], 1e-6 * std::max(1.0, std::abs(a[i].data[k])))
            << print(*clean);
    std::string once = print(*clean);
    cleanUp(*clean);
    EXPECT_EQ(print(*clean), once);
  }
  EXPECT_LT(after, before);
}

// Passes depend on the text alone: a module that was printed and parsed in between gives the same.
TEST(Grad, PrintingInBetweenChangesNothing) {
  for (const GradCase& gradCase : gradCases()) {
    auto direct = verified(withGradients(programOf(gradCase), 2));
    ASSERT_TRUE(direct && expand(*direct));
    auto again = verified(print(*direct));
    ASSERT_TRUE(again);
    cleanUp(*direct);
    cleanUp(*again);
    ASSERT_EQ(print(*direct), print(*again));
  }
}

/// The gradient of Σ w·op(…) at one point, w = 1, 2, 3, …
std::vector<double> gradientAt(const std::string& line, const std::vector<double>& a,
                               const std::vector<double>& b, const std::string& resultType, size_t which) {
  std::string ta = fmt::format("{}xf32", a.size()), tb = fmt::format("{}xf32", b.size());
  GradCase gradCase{Opcode::add, "%r0 = " + line, {{ta}, {tb}}, {resultType}};
  auto module = verified(withGradients(programOf(gradCase), 1));
  if (!module || !expand(*module)) return {};
  Type result = module->func("train")->arg("w0")->type;
  NdArray weights = NdArray::zeros(result);
  std::iota(weights.data.begin(), weights.data.end(), 1.0);
  Inputs inputs = {{"a", {module->func("train")->arg("a")->type, a}},
                   {"b", {module->func("train")->arg("b")->type, b}},
                   {"w0", weights}};
  return evaluate(*module, inputs).at(which + 1).data;
}

using Doubles = std::vector<double>;

TEST(Grad, TiesAndKinks) {
  EXPECT_EQ(gradientAt("tg.max %a, %b : tensor<3xf32>", {1, 2, 3}, {1, 5, 0}, "3xf32", 0),
            (Doubles{1, 0, 3}));
  EXPECT_EQ(gradientAt("tg.max %a, %b : tensor<3xf32>", {1, 2, 3}, {1, 5, 0}, "3xf32", 1),
            (Doubles{0, 2, 0}));
  EXPECT_EQ(gradientAt("tg.min %a, %b : tensor<3xf32>", {1, 2, 3}, {1, 5, 0}, "3xf32", 0),
            (Doubles{1, 2, 0}));
  EXPECT_EQ(gradientAt("tg.min %a, %b : tensor<3xf32>", {1, 2, 3}, {1, 5, 0}, "3xf32", 1),
            (Doubles{0, 0, 3}));
  EXPECT_EQ(gradientAt("tg.relu %a : tensor<3xf32>", {0, -1, 2}, {0}, "3xf32", 0), (Doubles{0, 0, 3}));
  EXPECT_EQ(gradientAt("tg.abs %a : tensor<3xf32>", {0, -1, 2}, {0}, "3xf32", 0), (Doubles{0, -2, 3}));
  EXPECT_EQ(gradientAt("tg.max_reduce %a {axes = [0]} : tensor<f32>", {4, 1, 4}, {0}, "f32", 0),
            (Doubles{0.5, 0, 0.5}));
}

// Rows far out of range of exp: the forms that subtract the maximum stay finite and exact.
TEST(Grad, LargeLogitsStayFinite) {
  for (const char* op : {"softmax", "log_softmax"}) {
    Doubles d = gradientAt(fmt::format("tg.{} %a : tensor<3xf32>", op), {1000, -1000, 999}, {0}, "3xf32", 0);
    for (double value : d) EXPECT_TRUE(std::isfinite(value)) << op;
  }
}

/// @train of a module text after append-grad, run with parameters set.
RunResult runTrain(const std::string& text, const Inputs& inputs, const Inputs& params) {
  auto module = verified(text);
  if (!module || !expand(*module)) return {};
  auto interpreter = Interpreter::create(*module);
  for (const auto& [name, value] : params) EXPECT_TRUE(interpreter->setStorage(name, value));
  auto run = interpreter->run("train", inputs);
  EXPECT_TRUE(run) << (run ? "" : run.error().str());
  return run ? std::move(*run) : RunResult{};
}

// f(x) = Σ x³ has the Hessian diag(6x), so H·v = 6·x·v.
TEST(Grad, HessianVectorProduct) {
  RunResult run = runTrain(R"(module @m {
  param @x : tensor<3xf32>
  func @train(%v: tensor<3xf32>) -> (loss: tensor<f32>, hv: tensor<3xf32>) {
    %x = tg.param @x : tensor<3xf32>
    %x2 = tg.square %x : tensor<3xf32>
    %x3 = tg.mul %x2, %x : tensor<3xf32>
    %f = tg.sum %x3 {axes = [0]} : tensor<f32>
    %g = tg.grad %f, %x : tensor<3xf32>
    %gv = tg.mul %g, %v : tensor<3xf32>
    %dot = tg.sum %gv {axes = [0]} : tensor<f32>
    %hv = tg.grad %dot, %x : tensor<3xf32>
    return %f, %hv : tensor<f32>, tensor<3xf32>
  }
}
)",
                           {{"v", {Type::tensor(DType::f32, {3}), {1, 2, -1}}}},
                           {{"x", {Type::tensor(DType::f32, {3}), {0.5, -1, 2}}}});
  ASSERT_EQ(run.results.size(), 2u);
  EXPECT_EQ(run.results[1].second.data, (Doubles{3, -12, -12}));
  EXPECT_EQ(run.paramGrads.at("x").data, (Doubles{0.75, 3, 12}));  // 3x²
}

// D(x) = Σ w·x²; the penalty (Σ (dD/dx)²) = Σ 4w²x² has d/dw = 8wx².
TEST(Grad, GradientPenalty) {
  RunResult run = runTrain(R"(module @m {
  param @w : tensor<2xf32>
  func @train(%x: tensor<2xf32>) -> (loss: tensor<f32>) {
    %w = tg.param @w : tensor<2xf32>
    %sq = tg.square %x : tensor<2xf32>
    %wx = tg.mul %w, %sq : tensor<2xf32>
    %d = tg.sum %wx {axes = [0]} : tensor<f32>
    %dx = tg.grad %d, %x : tensor<2xf32>
    %dx2 = tg.square %dx : tensor<2xf32>
    %penalty = tg.sum %dx2 {axes = [0]} : tensor<f32>
    return %penalty : tensor<f32>
  }
}
)",
                           {{"x", {Type::tensor(DType::f32, {2}), {2, -1}}}},
                           {{"w", {Type::tensor(DType::f32, {2}), {0.5, 3}}}});
  EXPECT_EQ(run.paramGrads.at("w").data, (Doubles{16, 24}));
}

// A parameter read twice gets both contributions; one the loss does not reach gets zeros.
TEST(Grad, ParametersReadTwiceOrNever) {
  RunResult run = runTrain(R"(module @m {
  param @w : tensor<2xf32>
  param @never : tensor<3xf32>
  func @train(%x: tensor<2xf32>) -> (loss: tensor<f32>) {
    %w = tg.param @w : tensor<2xf32>
    %again = tg.param @w : tensor<2xf32>
    %a = tg.mul %w, %x : tensor<2xf32>
    %b = tg.mul %a, %again : tensor<2xf32>
    %loss = tg.sum %b {axes = [0]} : tensor<f32>
    return %loss : tensor<f32>
  }
}
)",
                           {{"x", {Type::tensor(DType::f32, {2}), {2, -1}}}},
                           {{"w", {Type::tensor(DType::f32, {2}), {0.5, 3}}}});
  EXPECT_EQ(run.paramGrads.at("w").data, (Doubles{2, -6}));  // 2wx
  EXPECT_FALSE(run.paramGrads.contains("never"));
}

}  // namespace
}  // namespace tg::test
