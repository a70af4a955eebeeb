// SPDX-License-Identifier: Apache-2.0
// append-sgd, normalized gradients and accumulation against formulas written once more here in f64.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <random>

#include "ir/parser.h"
#include "ir/verify.h"
#include "passes/pass.h"
#include "runtime/interp/interp.h"
#include "test/unit/interp_test_support.h"
#include "test/unit/optimizer_support.h"

namespace tg::test {
namespace {

/// The module after a pipeline, verified, and equal to what its text says.
std::unique_ptr<Module> through(const std::string& text, const std::string& pipeline) {
  auto module = parse(text, "test.tgir");
  auto passes = PassManager::parse(pipeline);
  if (!module || !passes) {
    ADD_FAILURE() << (module ? passes.error() : module.error()).str();
    return nullptr;
  }
  auto ran = passes->run(*module);
  if (!ran) {
    ADD_FAILURE() << ran.error().str();
    return nullptr;
  }
  auto again = parse(print(**module), "again.tgir");
  EXPECT_TRUE(again && print(**again) == print(**module));
  return std::move(*module);
}

double norm(const Doubles& x) {
  double sum = 0;
  for (double e : x) sum += e * e;
  return std::sqrt(sum);
}

/// An optimizer as one function of (parameter, gradient, its memory, learning rate, step, decay).
using Rule = std::function<void(Doubles& p, const Doubles& g, std::map<char, Doubles>& memory, double lr,
                                int t, double decay)>;

Rule sgd(double momentum, bool nesterov) {
  return [=](Doubles& p, const Doubles& g, std::map<char, Doubles>& memory, double lr, int, double decay) {
    Doubles& v = memory['v'];
    v.resize(p.size());
    for (size_t i = 0; i < p.size(); ++i) {
      double d = g[i] + decay * p[i];
      v[i] = momentum * v[i] + d;
      p[i] -= lr * (nesterov ? d + momentum * v[i] : v[i]);
    }
  };
}

Rule adam(double beta1, double beta2, double eps) {
  return [=](Doubles& p, const Doubles& g, std::map<char, Doubles>& memory, double lr, int t, double decay) {
    Doubles &m = memory['m'], &v = memory['v'];
    m.resize(p.size()), v.resize(p.size());
    double rate = lr * std::sqrt(1 - std::pow(beta2, t)) / (1 - std::pow(beta1, t));
    for (size_t i = 0; i < p.size(); ++i) {
      m[i] = beta1 * m[i] + (1 - beta1) * g[i];
      v[i] = beta2 * v[i] + (1 - beta2) * g[i] * g[i];
      p[i] = (1 - lr * decay) * p[i] - rate * m[i] / (std::sqrt(v[i]) + eps);
    }
  };
}

struct Expected {
  Rule rule;
  double decayW = 0, decayB = 0;
  double clip = 0;
  bool normalizeW = false, normalizeB = false;
};

void expectClose(const Doubles& got, const Doubles& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  // Numbers in the text are rounded to f32: 6e-8 relative, growing slowly with the steps.
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], want[i], 3e-6 * std::max(1e-2, std::abs(want[i]))) << what << "[" << i << "]";
}

/// What the gradients become before the rule sees them; returns the norm that is clipped.
double prepare(Doubles& a, Doubles& c, const Expected& expected) {
  auto normalize = [](Doubles& g) {
    double by = norm(g) + 1e-8;
    for (double& e : g) e /= by;
  };
  if (expected.normalizeW) normalize(a);
  if (expected.normalizeB) normalize(c);
  double total = std::hypot(norm(a), norm(c));
  if (expected.clip > 0)
    for (Doubles* g : {&a, &c})
      for (double& e : *g) e *= std::min(1.0, expected.clip / (total + 1e-6));
  return total;
}

/// Twelve steps with changing gradients and rates beside the reference, at a stage of the pipeline.
void compare(const std::string& optimizer, const Expected& expected, const std::string& rest = "") {
  SCOPED_TRACE(optimizer + rest);
  auto module = through(kLinear, "append-grad," + optimizer + rest);
  ASSERT_TRUE(module);
  auto session = Interpreter::create(*module);
  Doubles w = {0.5, -1, 2}, b = {0.25, -3};
  std::map<char, Doubles> memoryW, memoryB;
  ASSERT_TRUE(session->setStorage("w", vec(w)) && session->setStorage("b", vec(b)));
  for (int t = 1; t <= 12; ++t) {
    Doubles a = {0.1 * t, -2.0, 1.5 / t}, c = {3.0, 0.01 * t};
    double lr = 0.1 / t;
    auto run = session->run("train", {{"a", vec(a)}, {"c", vec(c)}, {"lr", NdArray::scalar(lr)}});
    ASSERT_TRUE(run) << run.error().str();
    double total = prepare(a, c, expected);
    EXPECT_NEAR(run->result("grad_norm")->data[0], total, 2e-6 * total);
    expected.rule(w, a, memoryW, lr, t, expected.decayW);
    expected.rule(b, c, memoryB, lr, t, expected.decayB);
    expectClose(session->storage("w")->data, w, fmt::format("w after {}", t));
    expectClose(session->storage("b")->data, b, fmt::format("b after {}", t));
  }
}

/// The same at the tensor stage and behind fuse and plan, where the updates are one flat kernel.
void compareStages(const std::string& optimizer, const Expected& expected) {
  compare(optimizer, expected);
  compare(optimizer, expected, ",fuse");
  compare(optimizer, expected, ",fuse,plan");
}

TEST(Sgd, Plain) { compareStages("append-sgd", {sgd(0, false)}); }
TEST(Sgd, Momentum) { compareStages("append-sgd{momentum=0.9}", {sgd(0.9, false)}); }
TEST(Sgd, Nesterov) { compareStages("append-sgd{momentum=0.9,nesterov}", {sgd(0.9, true)}); }

// @b starts as zeros and does not decay; @w is the only one that does.
TEST(Sgd, DecayIsPartOfTheGradient) {
  compareStages("append-sgd{weight-decay=0.5}", {sgd(0, false), 0.5, 0});
  compareStages("append-sgd{weight-decay=0.5,momentum=0.75}", {sgd(0.75, false), 0.5, 0});
  compareStages("append-sgd{weight-decay=0.5,momentum=0.75,no-decay=w}", {sgd(0.75, false), 0, 0});
}

TEST(Sgd, Clipped) {
  compareStages("append-sgd{momentum=0.5,clip-norm=1}", {sgd(0.5, false), 0, 0, 1});
  compareStages("append-sgd{momentum=0.5,clip-norm=1,weight-decay=0.25}", {sgd(0.5, false), 0.25, 0, 1});
}

TEST(Normalize, AllOrByName) {
  compareStages("append-sgd{normalize-grads}", {sgd(0, false), 0, 0, 0, true, true});
  compareStages("append-sgd{normalize-grads=b}", {sgd(0, false), 0, 0, 0, false, true});
  compareStages("append-adam{normalize-grads=w}", {adam(0.9, 0.999, 1e-8), 0, 0, 0, true, false});
}

TEST(Normalize, ThenClipped) {
  compareStages("append-sgd{normalize-grads,clip-norm=0.5}", {sgd(0, false), 0, 0, 0.5, true, true});
  compareStages("append-adam{normalize-grads=w,clip-norm=0.5,weight-decay=0.1}",
                {adam(0.9, 0.999, 1e-8), 0.1, 0, 0.5, true, false});
}

TEST(AdamKinds, AdamWIsAdamWithADecay) {
  compareStages("append-adam{kind=adamw,weight-decay=0.25}", {adam(0.9, 0.999, 1e-8), 0.25, 0});
  compareStages("append-adam{beta1=0,beta2=0.5}", {adam(0, 0.5, 1e-8)});
}

// The op alone, by its row.
TEST(SgdUpdate, FollowsItsFormula) {
  const double p = 2, g = -0.5, v = 0.25, rate = 0.125, decay = 0.1;
  const Inputs inputs{{"p", NdArray::scalar(p)},
                      {"g", NdArray::scalar(g)},
                      {"v", NdArray::scalar(v)},
                      {"lr", NdArray::scalar(rate)},
                      {"k", NdArray::scalar(decay)}};
  auto result = [&](const std::string& line, const std::string& name) {
    return evaluate(line + "\n%r = tg.stop_gradient %" + name + " : tensor<f32>", "tensor<f32>", inputs)
        .data[0];
  };
  const std::string plain = "%p2 = tg.sgd_update %p, %g, %lr, %k : tensor<f32>";
  const std::string heavy = "%p2, %v2 = tg.sgd_update %p, %g, %lr, %k, %v {momentum = 0.75} : tensor<f32>, "
                            "tensor<f32>";
  const std::string ahead = "%p2, %v2 = tg.sgd_update %p, %g, %lr, %k, %v {momentum = 0.75, nesterov = true} "
                            ": tensor<f32>, tensor<f32>";
  const double d = g + decay * p, v2 = 0.75 * v + d;
  EXPECT_NEAR(result(plain, "p2"), p - rate * d, 1e-15);
  EXPECT_NEAR(result(heavy, "v2"), v2, 1e-15);
  EXPECT_NEAR(result(heavy, "p2"), p - rate * v2, 1e-15);
  EXPECT_NEAR(result(ahead, "v2"), v2, 1e-15);
  EXPECT_NEAR(result(ahead, "p2"), p - rate * (d + 0.75 * v2), 1e-15);
}

// A mean loss over a batch: a step on the whole is a step on the mean of the parts.
std::string regression(int rows) {
  return fmt::format(R"(module @m {{
  param @w : tensor<3x2xf32> {{init = randn(1.0)}}
  param @b : tensor<2xf32> {{init = zeros, decay = true}}
  func @train(%x: tensor<{0}x3xf32>, %y: tensor<{0}x2xf32>) -> (loss: tensor<f32>) {{
    %w = tg.param @w : tensor<3x2xf32>
    %b = tg.param @b : tensor<2xf32>
    %z = tg.matmul %x, %w : tensor<{0}x2xf32>
    %h = tg.add %z, %b : tensor<{0}x2xf32>
    %p = tg.tanh %h : tensor<{0}x2xf32>
    %d = tg.sub %p, %y : tensor<{0}x2xf32>
    %s = tg.square %d : tensor<{0}x2xf32>
    %loss = tg.mean %s {{axes = [0, 1]}} : tensor<f32>
    return %loss : tensor<f32>
  }}
}}
)",
                     rows);
}

NdArray rows(const NdArray& all, int64_t first, int64_t count) {
  int64_t width = all.type.shape[1];
  NdArray out = NdArray::zeros(Type::tensor(DType::f32, {count, width}));
  std::copy_n(all.data.begin() + first * width, count * width, out.data.begin());
  return out;
}

void accumulates(const std::string& optimizer, const std::string& rest) {
  SCOPED_TRACE(optimizer + rest);
  constexpr int kParts = 3, kRows = 12;
  auto whole = through(regression(kRows), "append-grad," + optimizer + rest);
  auto parts = through(regression(kRows / kParts),
                       fmt::format("append-grad{{accumulate={}}},{}{}", kParts, optimizer, rest));
  ASSERT_TRUE(whole && parts);
  auto one = Interpreter::create(*whole), many = Interpreter::create(*parts);
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  auto filled = [&](Shape shape) {
    NdArray out = NdArray::zeros(Type::tensor(DType::f32, shape));
    for (double& e : out.data) e = static_cast<float>(normal(random));
    return out;
  };
  const NdArray w = filled({3, 2}), b = filled({2});
  for (auto* session : {&*one, &*many})
    ASSERT_TRUE(session->setStorage("w", w) && session->setStorage("b", b));
  for (int step = 1; step <= 10; ++step) {
    const NdArray x = filled({kRows, 3}), y = filled({kRows, 2}), lr = NdArray::scalar(0.1 / step);
    auto full = one->run("train", {{"x", x}, {"y", y}, {"lr", lr}});
    ASSERT_TRUE(full) << full.error().str();
    const Doubles before = many->storage("w")->data;
    for (int part = 0; part < kParts; ++part) {
      int64_t count = kRows / kParts;
      auto run =
          many->run("train", {{"x", rows(x, part * count, count)}, {"y", rows(y, part * count, count)}});
      ASSERT_TRUE(run) << run.error().str();
    }
    EXPECT_EQ(many->storage("w")->data, before);  // a step is @apply's
    auto applied = many->run("apply", {{"lr", lr}});
    ASSERT_TRUE(applied) << applied.error().str();
    EXPECT_NEAR(applied->result("grad_norm")->data[0], full->result("grad_norm")->data[0], 1e-6);
    for (const char* name : {"w", "b"})
      expectClose(many->storage(name)->data, one->storage(name)->data,
                  fmt::format("{} after {}", name, step));
    for (const char* name : {"g.w", "g.b"}) EXPECT_EQ(norm(many->storage(name)->data), 0) << name;
  }
}

TEST(Accumulation, EqualsTheWholeBatch) {
  for (const char* optimizer :
       {"append-adam{weight-decay=0.1,no-decay=w}", "append-sgd",
        "append-sgd{momentum=0.9,nesterov,clip-norm=0.1}", "append-adam{normalize-grads,clip-norm=0.5}",
        "append-sgd{weight-decay=0.1,no-decay=w,normalize-grads=b}"})
    for (const char* rest : {"", ",fuse", ",fuse,plan"}) accumulates(optimizer, rest);
}

TEST(Accumulation, GradientsOfACallAndOfAStep) {
  auto module = through(regression(4), "append-grad{accumulate=2},append-sgd");
  ASSERT_TRUE(module);
  auto session = Interpreter::create(*module);
  auto run = [&](double x) {
    NdArray input = NdArray::zeros(Type::tensor(DType::f32, {4, 3}));
    for (double& e : input.data) e = x;
    auto out = session->run("train", {{"x", input}, {"y", NdArray::zeros(Type::tensor(DType::f32, {4, 2}))}});
    EXPECT_TRUE(out);
    return out->paramGrads.at("w").data;
  };
  ASSERT_TRUE(session->setStorage("w", {Type::tensor(DType::f32, {3, 2}), {0.1, 0.2, 0.3, 0.4, 0.5, 0.6}}));
  Doubles first = run(0.5), second = run(-0.25);
  auto applied = session->run("apply", {{"lr", NdArray::scalar(0)}});
  ASSERT_TRUE(applied) << applied.error().str();
  for (size_t i = 0; i < first.size(); ++i)
    EXPECT_NEAR(applied->paramGrads.at("w").data[i], (first[i] + second[i]) / 2, 1e-12);
}

TEST(Accumulation, TheAuthorsLearningRateMovesAlong) {
  std::string text = regression(4);
  std::string head = "%y: tensor<4x2xf32>";
  text.insert(text.find(head) + head.size(),
              ", %rate: tensor<f32> {host = \"lr\", schedule = cosine(0.1, 0.0, 100)}");
  auto module = through(text, "append-grad{accumulate=2},append-sgd");
  ASSERT_TRUE(module);
  EXPECT_EQ(module->func("train")->body.args.size(), 2u);
  ASSERT_EQ(module->func("apply")->body.args.size(), 1u);
  EXPECT_EQ(module->func("apply")->body.args[0]->name, "rate");
  EXPECT_EQ(find(module->func("apply")->body.args[0]->attrs, "schedule")->text, "cosine");
}

/// The optimizer's regions: one update of all parameters.
TEST(FlatUpdates, AreOneKernelEach) {
  for (const char* optimizer : {"append-sgd", "append-sgd{momentum=0.9,weight-decay=0.1,clip-norm=1}",
                                "append-adam{weight-decay=0.1,clip-norm=1}"}) {
    for (const char* accumulate : {"", "{accumulate=4}"}) {
      auto module =
          through(kLinear, fmt::format("append-grad{},{},fuse{{target=lavapipe}}", accumulate, optimizer));
      ASSERT_TRUE(module);
      int updates = 0, singles = 0;
      for (const Item* func : module->all(ItemKind::func))
        walk(func->body, [&](Op& op) {
          if (op.code != Opcode::adam_update && op.code != Opcode::sgd_update) return;
          ++(op.result()->type.elements() > 3 ? updates : singles);
        });
      EXPECT_EQ(updates, 1) << optimizer << print(*module);
      EXPECT_EQ(singles, 0) << optimizer;
    }
  }
}

}  // namespace
}  // namespace tg::test
