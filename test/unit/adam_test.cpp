// SPDX-License-Identifier: Apache-2.0
// append-adam against the closed formulas, written once more here in f64.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ir/parser.h"
#include "ir/verify.h"
#include "passes/pass.h"
#include "runtime/interp/interp.h"
#include "test/unit/optimizer_support.h"

namespace tg::test {
namespace {

std::unique_ptr<Module> prepared(const std::string& text, const AppendAdamOptions& options) {
  auto module = parse(text, "test.tgir");
  if (!module) {
    ADD_FAILURE() << module.error().str();
    return nullptr;
  }
  auto grad = run_append_grad(**module, {}, {});
  EXPECT_TRUE(grad) << (grad ? "" : grad.error().str());
  auto adam = run_append_adam(**module, options, {});
  EXPECT_TRUE(adam) << (adam ? "" : adam.error().str());
  auto valid = verify(**module);
  EXPECT_TRUE(valid) << (valid ? "" : valid.error().str()) << print(**module);
  // The pass's output is what its text says.
  auto again = parse(print(**module), "again.tgir");
  EXPECT_TRUE(again && print(**again) == print(**module));
  return std::move(*module);
}

/// Adam of one parameter with gradient g(step), in plain f64.
struct Reference {
  Doubles p, m, v;
  void step(int t, const Doubles& g, double lr, const AppendAdamOptions& o, double decay) {
    m.resize(p.size()), v.resize(p.size());
    double rate = lr * std::sqrt(1 - std::pow(o.beta2, t)) / (1 - std::pow(o.beta1, t));
    for (size_t i = 0; i < p.size(); ++i) {
      m[i] = o.beta1 * m[i] + (1 - o.beta1) * g[i];
      v[i] = o.beta2 * v[i] + (1 - o.beta2) * g[i] * g[i];
      p[i] *= 1 - lr * decay;
      if (o.correctedEps)  // as torch/optim/adam.py has it: step_size, then denom
        p[i] -= lr / (1 - std::pow(o.beta1, t)) *
                (m[i] / (std::sqrt(v[i]) / std::sqrt(1 - std::pow(o.beta2, t)) + o.eps));
      else
        p[i] -= rate * m[i] / (std::sqrt(v[i]) + o.eps);
    }
  }
};

void expectNear(const Doubles& got, const Doubles& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  // β is rounded to f32 in the text: 6e-8 relative, growing slowly with the steps.
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], want[i], 2e-6 * std::max(1e-3, std::abs(want[i]))) << what << "[" << i << "]";
}

/// Runs steps with changing gradients and rates beside the reference.
void compare(const AppendAdamOptions& options, double decayW, double decayB, int steps = 7) {
  auto module = prepared(kLinear, options);
  ASSERT_TRUE(module);
  auto session = Interpreter::create(*module);
  Reference w{{0.5, -1, 2}, {}, {}}, b{{0.25, -3}, {}, {}};
  ASSERT_TRUE(session->setStorage("w", vec(w.p)) && session->setStorage("b", vec(b.p)));
  for (int t = 1; t <= steps; ++t) {
    Doubles a = {0.1 * t, -2.0, 1.5 / t}, c = {3.0, 0.01 * t};
    double lr = 0.01 / t, squares = 0;
    auto run = session->run("train", {{"a", vec(a)}, {"c", vec(c)}, {"lr", NdArray::scalar(lr)}});
    ASSERT_TRUE(run) << run.error().str();
    for (double g : a) squares += g * g;
    for (double g : c) squares += g * g;
    double norm = std::sqrt(squares);
    EXPECT_NEAR(run->result("grad_norm")->data[0], norm, 1e-6);
    EXPECT_EQ(run->paramGrads.at("w").data, a);  // the gradients themselves are not clipped
    double scale = options.clipNorm > 0 ? std::min(1.0, options.clipNorm / (norm + 1e-6)) : 1;
    for (double& g : a) g *= scale;
    for (double& g : c) g *= scale;
    w.step(t, a, lr, options, decayW);
    b.step(t, c, lr, options, decayB);
    expectNear(session->storage("w")->data, w.p, fmt::format("w after {}", t));
    expectNear(session->storage("b")->data, b.p, fmt::format("b after {}", t));
    expectNear(session->storage("adam.m.w")->data, w.m, "m");
    expectNear(session->storage("adam.v.w")->data, w.v, "v");
    EXPECT_EQ(session->storage("adam.t")->data, Doubles{static_cast<double>(t)});
  }
}

TEST(Adam, FollowsTheFormula) { compare({}, 0, 0); }

TEST(Adam, OtherBetasAndEps) {
  AppendAdamOptions options;
  options.beta1 = 0.5, options.beta2 = 0.75, options.eps = 0.125;
  compare(options, 0, 0);
}

TEST(Adam, EpsBesideTheCorrectedRoot) {
  AppendAdamOptions options;
  options.correctedEps = true, options.eps = 0.125;
  compare(options, 0, 0);
  options.weightDecay = 0.5;
  compare(options, 0.5, 0);  // @b does not decay
}

// The first step by hand: the corrected moments are g and g², so p goes down by lr·g/(|g| + ε).
TEST(Adam, TheFirstStepWithTheCorrectedEps) {
  AppendAdamOptions options;
  options.correctedEps = true, options.eps = 1;
  auto module = prepared(kLinear, options);
  ASSERT_TRUE(module);
  auto session = Interpreter::create(*module);
  ASSERT_TRUE(session->setStorage("w", vec({0, 0, 0})) && session->setStorage("b", vec({0, 0})));
  auto run =
      session->run("train", {{"a", vec({3, -1, 0})}, {"c", vec({7, 1})}, {"lr", NdArray::scalar(0.5)}});
  ASSERT_TRUE(run) << run.error().str();
  expectNear(session->storage("w")->data, {-0.375, 0.25, 0}, "w");
  expectNear(session->storage("b")->data, {-0.4375, -0.25}, "b");
}

TEST(Adam, DecayFollowsTheInit) {
  AppendAdamOptions options;
  options.weightDecay = 0.5;
  compare(options, 0.5, 0);  // @b starts as zeros
}

TEST(Adam, NoDecayPattern) {
  AppendAdamOptions options;
  options.weightDecay = 0.5, options.noDecay = "w*";
  compare(options, 0, 0);
}

TEST(Adam, ClipsByTheGlobalNorm) {
  AppendAdamOptions options;
  options.clipNorm = 1;
  compare(options, 0, 0);
}

TEST(Adam, ALooseClipChangesNothing) {
  AppendAdamOptions options;
  options.clipNorm = 1000;
  compare(options, 0, 0);
}

/// Which parameters, tensors of two elements whose sums are the loss, get a shrink operand.
std::vector<std::string> decayed(const std::string& items, const AppendAdamOptions& options) {
  std::string body;
  int count = 0;
  for (size_t at = 0; (at = items.find('@', at)) != std::string::npos; ++at, ++count)
    body += fmt::format("    %p{0} = tg.param {1} : tensor<2xf32>\n"
                        "    %t{0} = tg.sum %p{0} {{axes = [0]}} : tensor<f32>\n"
                        "    %s{2} = tg.add %s{0}, %t{0} : tensor<f32>\n",
                        count, items.substr(at, items.find(' ', at) - at), count + 1);
  auto module = prepared(
      fmt::format("module @m {{\n{}  func @train() -> (loss: tensor<f32>) {{\n"
                  "    %s0 = tg.constant 0.0 : tensor<f32>\n{}    return %s{} : tensor<f32>\n  }}\n}}\n",
                  items, body, count),
      options);
  std::vector<std::string> out;
  if (!module) return out;
  for (Op* op : module->func("train")->body.ops)
    if (op->code == Opcode::adam_update && op->numOperands() == 6)
      out.push_back(op->in(0)->def->operands[0].text);
  return out;
}

TEST(Adam, WhoDecays) {
  AppendAdamOptions options;
  options.weightDecay = 0.1;
  const std::string items = "  param @none : tensor<2xf32>\n"
                            "  param @zeros : tensor<2xf32> {init = zeros}\n"
                            "  param @ones : tensor<2xf32> {init = ones}\n"
                            "  param @constant : tensor<2xf32> {init = constant(0.5)}\n"
                            "  param @normal : tensor<2xf32> {init = randn(0.1)}\n"
                            "  param @forced : tensor<2xf32> {init = zeros, decay = true}\n"
                            "  param @spared : tensor<2xf32> {init = randn(0.1), decay = false}\n";
  EXPECT_EQ(decayed(items, options), (std::vector<std::string>{"none", "normal", "forced"}));
  // The parameter's own attribute is stronger than the pattern.
  options.noDecay = "n*|forced";
  EXPECT_EQ(decayed(items, options), (std::vector<std::string>{"forced"}));
  options.weightDecay = 0;
  EXPECT_TRUE(decayed(items, options).empty());
}

TEST(Adam, KeepsTheAuthorsLearningRate) {
  std::string text = kLinear;
  text.replace(text.find("%c: tensor<2xf32>)"), 18,
               "%c: tensor<2xf32>, %rate: tensor<f32> {host = \"lr\", schedule = cosine(0.1, 0.0, 100)})");
  auto module = prepared(text, {});
  ASSERT_TRUE(module);
  EXPECT_EQ(module->func("train")->body.args.size(), 3u);
  EXPECT_EQ(module->func("train")->body.args[2]->name, "rate");
}

}  // namespace
}  // namespace tg::test
