// SPDX-License-Identifier: Apache-2.0
// Losses, normalizations and masks of the front end against their formulas, and scopes in errors.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "passes/pass.h"
#include "test/unit/trace_support.h"

namespace trace_user {

using namespace tg::nn;
using tg::DType;

namespace {

const std::map<std::string, tg::NdArray> kTwo{{"x", ramp({2, 3}, -1.25, 0.75)}, {"y", ramp({2, 3}, 1, -0.5)}};
Tensor left() { return tensorInput("x", {2, 3}); }
Tensor right() { return tensorInput("y", {2, 3}); }

/// The formula over pairs of elements, averaged.
template <class F>
Values averaged(const std::map<std::string, tg::NdArray>& inputs, F formula) {
  const Values &a = inputs.at("x").data, &b = inputs.at("y").data;
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += formula(a[i], b[i]);
  return {sum / static_cast<double>(a.size())};
}

TEST(TraceLosses, Regression) {
  expectClose(evaluate([] { return mseLoss(left(), right()); }, kTwo, {}),
              averaged(kTwo, [](double a, double b) { return (a - b) * (a - b); }));
  auto huber = [](double a, double b) {
    const double d = std::fabs(a - b);
    return d <= 0.75 ? d * d / 2 : 0.75 * (d - 0.375);
  };
  expectClose(evaluate([] { return huberLoss(left(), right(), 0.75); }, kTwo, {}), averaged(kTwo, huber));
}

TEST(TraceLosses, BinaryCrossEntropy) {
  std::map<std::string, tg::NdArray> inputs{{"x", ramp({2, 3}, 0, 0.2)}, {"y", ramp({2, 3}, 0, 0.2)}};
  // A probability of 0 or 1 has a logarithm of -100 at least.
  auto bce = [](double p, double t) {
    return -(t * std::max(std::log(p), -100.0) + (1 - t) * std::max(std::log(1 - p), -100.0));
  };
  expectClose(evaluate([] { return bceLoss(left(), right()); }, inputs, {}), averaged(inputs, bce));
  auto logits = [&](double a, double t) { return bce(1 / (1 + std::exp(-a)), t); };
  inputs["x"] = ramp({2, 3}, -3, 1.3);
  expectClose(evaluate([] { return bceWithLogits(left(), right()); }, inputs, {}), averaged(inputs, logits));
  // Where sigmoid rounds to 1 the loss of a zero is the logit itself.
  inputs["x"] = ramp({2, 3}, 1000, 0);
  inputs["y"] = ramp({2, 3}, 0, 0);
  expectClose(evaluate([] { return bceWithLogits(left(), right()); }, inputs, {}), {1000});
}

TEST(TraceLosses, KullbackLeibler) {
  std::map<std::string, tg::NdArray> inputs{{"x", ramp({2, 3}, -2, 0.3)}, {"y", ramp({2, 3}, 0, 0.2)}};
  auto kl = [](double logProb, double t) { return t > 0 ? t * (std::log(t) - logProb) : 0; };
  expectClose(evaluate([] { return klDiv(left(), right()); }, inputs, {}), averaged(inputs, kl));
  // A target of 0 sends no NaN into the gradient of the targets.
  auto gradient = [] {
    Tensor t = right();
    return grad(klDiv(left(), t, Reduction::sum), {t}).front();
  };
  for (double each : evaluate(gradient, inputs, {2, 3})) EXPECT_TRUE(std::isfinite(each));
}

/// Of channel c of [N, C, K] from `from` channels on, `count` of them, of sample n or of all: mean and
/// variance.
std::pair<double, double> moments(const Values& data, int64_t n, int64_t from, int64_t count) {
  constexpr int64_t kSamples = 2, kChannels = 4, kPlace = 3;
  double sum = 0, squares = 0, terms = 0;
  for (int64_t s = 0; s < kSamples; ++s)
    for (int64_t c = from; c < from + count; ++c)
      for (int64_t k = 0; k < kPlace; ++k) {
        if (n >= 0 && s != n) continue;
        const double v = data[static_cast<size_t>((s * kChannels + c) * kPlace + k)];
        sum += v, squares += v * v, ++terms;
      }
  return {sum / terms, squares / terms - sum / terms * (sum / terms)};
}

/// x minus the mean over the deviation, with the moments that `of(sample, channel)` gives.
template <class F>
Values normalized(const Values& data, F of) {
  Values out(data.size());
  for (size_t i = 0; i < data.size(); ++i) {
    auto [mean, variance] = of(static_cast<int64_t>(i / 12), static_cast<int64_t>(i / 3 % 4));
    out[i] = (data[i] - mean) / std::sqrt(variance + 1e-5);
  }
  return out;
}

std::map<std::string, tg::NdArray> images() {
  std::map<std::string, tg::NdArray> inputs{{"x", ramp({2, 4, 3}, 0, 0)}};
  Values& data = inputs["x"].data;
  for (size_t i = 0; i < data.size(); ++i) data[i] = std::fmod(static_cast<double>(i) * 37, 11) / 4;
  return inputs;
}
Tensor pictures() { return tensorInput("x", {2, 4, 3}); }

TEST(TraceNorms, GroupsOfChannels) {
  auto inputs = images();
  auto expected = normalized(
      inputs["x"].data, [&](int64_t n, int64_t c) { return moments(inputs["x"].data, n, c / 2 * 2, 2); });
  expectClose(evaluate([] { return groupNorm(pictures(), 2, ones({4}), zeros({4})); }, inputs, {2, 4, 3}),
              expected);
}

struct Normed : Module {
  BatchNorm norm = child("norm", BatchNorm(4));
};

TEST(TraceNorms, BatchNormMovesItsStates) {
  Normed model;
  auto module = traced(trace(model, {{"train",
                                      {{"x", {2, 4, 3}}},
                                      [&](const Inputs& in) {
                                        return Outputs{{"r", model.norm(in["x"], true)}};
                                      }},
                                     {"eval", {{"x", {2, 4, 3}}}, [&](const Inputs& in) {
                                        return Outputs{{"r", model.norm(in["x"], false)}};
                                      }}}));
  ASSERT_TRUE(module);
  EXPECT_EQ(module->all(tg::ItemKind::param).size(), 2U) << "gain and bias";
  auto inputs = images();
  const Values& data = inputs["x"].data;
  auto interp = tg::Interpreter::create(*module);
  ASSERT_TRUE(interp);
  ASSERT_TRUE(interp->setStorage("norm.gain", ramp({4}, 1, 0)));
  ASSERT_TRUE(interp->setStorage("norm.variance", ramp({4}, 1, 0)));
  auto step = interp->run("train", inputs);
  ASSERT_TRUE(step);
  expectClose(step->result("r")->data,
              normalized(data, [&](int64_t, int64_t c) { return moments(data, -1, c, 1); }));
  for (int64_t c = 0; c < 4; ++c) {
    auto [mean, variance] = moments(data, -1, c, 1);
    EXPECT_NEAR(interp->storage("norm.mean")->data[static_cast<size_t>(c)], 0.1 * mean, 1e-6);
    EXPECT_NEAR(interp->storage("norm.variance")->data[static_cast<size_t>(c)], 0.9 + 0.1 * variance * 6 / 5,
                1e-6);
  }
  auto eval = interp->run("eval", inputs);
  ASSERT_TRUE(eval);
  const Values mean = interp->storage("norm.mean")->data, variance = interp->storage("norm.variance")->data;
  expectClose(eval->result("r")->data, normalized(data, [&](int64_t, int64_t c) {
                return std::pair(mean[static_cast<size_t>(c)], variance[static_cast<size_t>(c)]);
              }));
}

TEST(TraceMasks, BooleanAndAdditive) {
  std::map<std::string, tg::NdArray> inputs{
      {"q", ramp({2, 4}, -1, 0.25)}, {"k", ramp({3, 4}, 1, -0.125)}, {"v", ramp({3, 2}, 0, 1)}};
  auto with = [](const std::function<Tensor()>& mask) {
    return [mask] {
      return attention(tensorInput("q", {2, 4}), tensorInput("k", {3, 4}), tensorInput("v", {3, 2}),
                       {.mask = mask()});
    };
  };
  const double hidden[2][3] = {{0, 1, 0}, {0, 0, 1}};
  Values expected;
  for (int t = 0; t < 2; ++t) {
    double weights[3], total = 0;
    for (int s = 0; s < 3; ++s) {
      double score = 0;
      for (int d = 0; d < 4; ++d) score += (-1 + 0.25 * (4 * t + d)) * (1 - 0.125 * (4 * s + d));
      weights[s] = hidden[t][s] ? 0 : std::exp(score / 2);
      total += weights[s];
    }
    for (int d = 0; d < 2; ++d) {
      double sum = 0;
      for (int s = 0; s < 3; ++s) sum += weights[s] / total * (2 * s + d);
      expected.push_back(sum);
    }
  }
  auto boolean = [] { return !(constant({0, 1, 0, 0, 0, 1}, {2, 3}) > 0.5); };
  auto additive = [] { return constant({0, -1e9, 0, 0, 0, -1e9}, {2, 3}); };
  expectClose(evaluate(with(boolean), inputs, {2, 2}), expected);
  expectClose(evaluate(with(additive), inputs, {2, 2}), expected);
}

TEST(TraceOperators, OnTensors) {
  auto values = [](auto body) { return evaluate(body, kTwo, {2, 3}); };
  expectClose(values([] { return where(!(left() > 0) || right() > 0.5, 1, 0); }), {1, 1, 0, 0, 0, 0});
  expectClose(values([] { return where(left() > 0 && right() > -1, 1, 0); }), {0, 0, 1, 1, 0, 0});
  expectClose(values([] {
                Tensor a = left(), b = a;
                a += right(), a *= 2, a -= 1, a /= 4;
                return a + b * 0;
              }),
              {-0.375, -0.25, -0.125, 0, 0.125, 0.25});
}

TEST(TraceScopes, AHelpersErrorNamesItsCaller) {
  auto helper = [](const Tensor& a) {
    Scope here("helper");
    return matmul(a, a);
  };
  auto result = trace([&]() -> Outputs { return helper(left()); });
  ASSERT_FALSE(result);
  const auto& notes = result.error().diagnostics().front().notes;
  ASSERT_FALSE(notes.empty());
  EXPECT_EQ(notes.back().message, "in helper");
  EXPECT_NE(tg::locString(notes.back().loc).find("trace_losses_test.cpp"), std::string::npos);
}

TEST(TraceModules, OneModuleTwiceInAListIsAnError) {
  struct Twice : Module {
    Linear one = Linear(2, 2);
    std::vector<Linear> all = children("all", std::vector<Linear>{one, one});
  } model;
  auto result = trace(
      model, {{"train", {{"x", {2, 2}}}, [&](const Inputs& in) { return sum(model.all[0](in["x"])); }}});
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message().find("members '0' and '1' are one module"), std::string::npos)
      << result.error().message();
}

TEST(TraceBatch, HelpersFollowAnotherBatch) {
  auto module = traced(trace([]() -> Outputs {
    Tensor a = tensorInput("x", {2, 3, 4});
    return sum(mergeHeads(splitHeads(a, 2))) + sum(flatten(a, 1));
  }));
  ASSERT_TRUE(module);
  module->func("train")->body.args.front()->attrs = {{"batch", tg::Attr::of(int64_t{0})}};
  auto passes = tg::PassManager::parse("set-batch{n=7}");
  ASSERT_TRUE(passes);
  auto done = passes->run(module);
  EXPECT_TRUE(done) << done.error().str();
}

}  // namespace
}  // namespace trace_user
