// SPDX-License-Identifier: Apache-2.0
// Appending to a function that a module has.
#include "test/unit/trace_support.h"

namespace trace_user {
namespace {

using namespace tg::nn;

constexpr const char* kHeld = R"(module @held {
  param @w : tensor<2x1xf32> {init = zeros}
  state @count : tensor<f32>
  func @train(%x: tensor<4x2xf32>, %rng: tensor<2xi32> {host = "rng"}) -> (loss: tensor<f32>) {
    %w = tg.param @w : tensor<2x1xf32>
    %matmul = tg.matmul %x, %w : tensor<4x1xf32>
    %noise = tg.random_normal %rng {salt = 7} : tensor<4x1xf32>
    %h = tg.add %matmul, %noise : tensor<4x1xf32>
    tg.capture %h {name = "h"}
    %count = tg.state @count : tensor<f32>
    %c1.0 = tg.constant 1.0 : tensor<f32>
    %more = tg.add %count, %c1.0 : tensor<f32>
    tg.update @count, %more
    %total = tg.sum %h {axes = [0, 1]} : tensor<f32>
    return %total : tensor<f32>
  }
}
)";

std::unique_ptr<tg::Module> held() {
  auto module = tg::parse(kHeld, "held.tgir");
  EXPECT_TRUE(module) << module.error().str();
  return *std::move(module);
}

TEST(TraceExtend, AppendsBehindWhatIsThere) {
  auto module = held();
  const tg::Item* func = module->func("train");
  auto added = traceInto(
      *module,
      [](const Inputs& in) {
        Tensor w = paramInput("w", {2, 1}), bias = paramInput("bias", {1}), y = tensorInput("y", {4, 1});
        capture("x", tensorInput("x", {4, 2}));
        Tensor noise = randomNormal({4, 1});
        Tensor matmul = named("matmul", tg::nn::matmul(in["x"], w) + bias);
        return Outputs{{"error", sum(in["h"] - y + matmul)}, {"twice", in["loss"] * 2}, {"noise", noise}};
      },
      "train");
  ASSERT_TRUE(added) << added.error().str();
  EXPECT_EQ(module->func("train"), func);
  std::string text = tg::print(*module);
  auto again = tg::parse(text, "again.tgir");
  ASSERT_TRUE(again) << again.error().str() << text;
  EXPECT_EQ(tg::print(**again), text);
  EXPECT_EQ(text, R"(module @held {
  param @w : tensor<2x1xf32> {init = zeros}
  state @count : tensor<f32>
  param @bias : tensor<1xf32> {init = randn(0.02)}
  func @train(%x: tensor<4x2xf32>, %rng: tensor<2xi32> {host = "rng"}, %y: tensor<4x1xf32>) -> (loss: tensor<f32>, error: tensor<f32>, twice: tensor<f32>, noise: tensor<4x1xf32>) {
    %w = tg.param @w : tensor<2x1xf32>
    %matmul = tg.matmul %x, %w : tensor<4x1xf32>
    %noise = tg.random_normal %rng {salt = 7} : tensor<4x1xf32>
    %h = tg.add %matmul, %noise : tensor<4x1xf32>
    tg.capture %h {name = "h"}
    %count = tg.state @count : tensor<f32>
    %c1.0 = tg.constant 1.0 : tensor<f32>
    %more = tg.add %count, %c1.0 : tensor<f32>
    tg.update @count, %more
    %total = tg.sum %h {axes = [0, 1]} : tensor<f32>
    %bias = tg.param @bias : tensor<1xf32>
    tg.capture %x {name = "x"}
    %noise_2 = tg.random_normal %rng {salt = 8} : tensor<4x1xf32>
    %matmul_3 = tg.matmul %x, %w : tensor<4x1xf32>
    %matmul_2 = tg.add %matmul_3, %bias : tensor<4x1xf32>
    %sub = tg.sub %h, %y : tensor<4x1xf32>
    %add = tg.add %sub, %matmul_2 : tensor<4x1xf32>
    %error = tg.sum %add {axes = [0, 1]} : tensor<f32>
    %c2.0 = tg.constant 2.0 : tensor<f32>
    %twice = tg.mul %total, %c2.0 : tensor<f32>
    return %total, %error, %twice, %noise_2 : tensor<f32>, tensor<f32>, tensor<f32>, tensor<4x1xf32>
  }
}
)");
}

TEST(TraceExtend, ModulesOfAModelAndNoResults) {
  struct Head : Module {
    Linear fc = child("fc", Linear(1, 1));
  } head;
  auto module = held();
  auto added = traceInto(
      *module, head,
      [&](const Inputs& in) {
        capture("deep", head.fc(in["h"]));
        return Outputs{};
      },
      "train");
  ASSERT_TRUE(added) << added.error().str();
  EXPECT_EQ(module->func("train")->results.size(), 1U);
  EXPECT_TRUE(module->storage("fc.w"));
  EXPECT_NE(tg::print(*module).find("tg.capture %deep {name = \"deep\"}\n    return %total : tensor<f32>\n"),
            std::string::npos)
      << tg::print(*module);
}

/// The error of a body, which must stand at the line it notes; the module is as it was.
std::string refused(const std::function<Outputs(const Inputs&, int&)>& body) {
  auto module = held();
  const std::string before = tg::print(*module);
  int line = 0;
  auto added = traceInto(
      *module, [&](const Inputs& in) { return body(in, line); }, "train");
  EXPECT_EQ(tg::print(*module), before);
  if (added) return "no error";
  const tg::Diagnostic& first = added.error().diagnostics().front();
  if (line) {
    EXPECT_EQ(tg::placeOf(first.loc)->line, static_cast<uint32_t>(line)) << added.error().str();
  }
  EXPECT_NE(added.error().str().find("trace_extend_test.cpp"), std::string::npos) << added.error().str();
  return first.message;
}

struct Clash {
  const char* message;
  std::function<Outputs(const Inputs&, int&)> body;
};

TEST(TraceExtend, ClashesAreLocatedAndLeaveTheModule) {
  const std::vector<Clash> clashes = {
      {"@train has an input 'x' already, which is tensor<4x2xf32> and not tensor<4x3xf32>",
       [](const Inputs&, int& line) {
         line = __LINE__ + 1;
         Tensor x = tensorInput("x", {4, 3});
         return Outputs{{"s", sum(x)}};
       }},
      {"@w is declared as a param tensor<2x1xf32> already, with other properties",
       [](const Inputs&, int& line) {
         line = __LINE__ + 1;
         return Outputs{{"s", sum(paramInput("w", {3}) + paramInput("fresh", {3}))}};
       }},
      {"@train has two results named 'loss'",
       [](const Inputs& in, int&) {
         return Outputs{{"loss", in["loss"] * 2}};
       }},
      {"tg.capture [capture.c1]: 'h' is captured twice in @train",
       [](const Inputs& in, int& line) {
         line = __LINE__ + 1;
         return Outputs{{"more", capture("h", in["h"] * 2)}};
       }},
      {"tg.update [update.c3]: @count has a second update in @train",
       [](const Inputs& in, int& line) {
         line = __LINE__ + 1;
         update(in["count"], in["count"] * 2);
         return Outputs{};
       }},
      {"no input is named 'hidden'; known: x, rng, loss, w, matmul, noise, h, count, c1.0, more, total",
       [](const Inputs& in, int& line) {
         line = __LINE__ + 1;
         return Outputs{{"s", sum(in["hidden"])}};
       }},
      {"tg.matmul [matmul.c2]: inner dimensions differ: 2 and 4",
       [](const Inputs& in, int& line) {
         line = __LINE__ + 1;
         return Outputs{{"s", matmul(in["x"], in["h"])}};
       }},
  };
  for (const Clash& clash : clashes) EXPECT_EQ(refused(clash.body), clash.message);
}

TEST(TraceExtend, FunctionsThatAreNotThere) {
  auto module = held();
  auto absent = traceInto(
      *module, [](const Inputs& in) { return in["x"]; }, "eval");
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().message(), "the module has no function @eval to append to; it has @train");
  auto twice = traceInto(
      *module, [] { return sum(zeros({2})); }, "train");
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().message(), "the module has a function @train already; a body that takes its "
                                     "values, (const Inputs&), appends to it");
  EXPECT_THROW((void)traceInto(
                   *module, [](const Inputs&) -> Outputs { throw std::runtime_error("mine"); }, "train"),
               std::runtime_error);
  EXPECT_EQ(tg::print(*module), kHeld);
}

}  // namespace
}  // namespace trace_user
