// SPDX-License-Identifier: Apache-2.0
// The code of docs/session.md, compiled and run.
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "ir/parser.h"
#include "runtime/session.h"

namespace tg {
namespace {

constexpr const char* kLine = R"(
module @line {
  param @a : tensor<1x1xf32> {init = zeros}
  param @b : tensor<1xf32> {init = zeros}
  func @train(%x: tensor<8x1xf32> {batch = 0}, %y: tensor<8x1xf32> {batch = 0}) -> (loss: tensor<f32>) {
    %a = tg.param @a : tensor<1x1xf32>
    %b = tg.param @b : tensor<1xf32>
    %m = tg.matmul %x, %a : tensor<8x1xf32>
    %p = tg.add %m, %b : tensor<8x1xf32>
    tg.capture %p {name = "prediction"}
    %d = tg.sub %p, %y : tensor<8x1xf32>
    %s = tg.square %d : tensor<8x1xf32>
    %loss = tg.mean %s {axes = [0, 1]} : tensor<f32>
    return %loss : tensor<f32>
  }
}
)";
constexpr const char* kSlope = R"(
module @slope {
  param @a : tensor<1x1xf32>
  func @slope() -> (a: tensor<1x1xf32>) {
    %a = tg.param @a : tensor<1x1xf32>
    return %a : tensor<1x1xf32>
  }
}
)";

HostArray points(int64_t count) {
  HostArray x = HostArray::zeros(DType::f32, {count, 1});
  for (int64_t i = 0; i < count; ++i) x.set(i, static_cast<double>(i) / static_cast<double>(count));
  return x;
}
/// y = 2x - 1.
HostArray line(int64_t count) {
  HostArray y = points(count);
  for (int64_t i = 0; i < count; ++i) y.set(i, 2 * y.at(i) - 1);
  return y;
}

// The page has these lines, each two columns further left.
Result<void> tour(double& last, double& slopeFound, int64_t& batch) {
  SessionOptions options;
  options.device = "interp";  // or "auto", or a part of a device's name
  options.seed = 1;
  options.trainPipeline = "append-grad,append-adam{lr=0.02}";
  TG_TRY(auto module, parse(kLine, "line.tgir"));
  TG_TRY(auto session, Session::create(std::move(module), options));
  for (int i = 0; i < 300; ++i) {
    TG_TRY(StepResult step, session->step({{"x", points(8)}, {"y", line(8)}}));
    last = step.loss;
  }

  for (int i = 0; i < 20; ++i) {
    TG_CHECK(session->beginStep({{"x", points(8)}, {"y", line(8)}}));
    if (session->stepsInFlight() < 2) continue;
    TG_TRY(StepResult step, session->endStep());  // the oldest one begun
    last = step.loss;
  }
  TG_TRY(StepResult newest, session->endStep());
  EXPECT_EQ(newest.step, 320);

  TG_TRY(CallOutputs out, session->run("train", {{"x", points(8)}, {"y", line(8)}}, {"prediction"}));
  TG_TRY(HostArray prediction, out.captures.get("prediction"));
  TG_TRY(NamedArrays gradients, session->downloadParamGrads());
  EXPECT_NEAR(prediction.at(0), -1, 0.05);
  EXPECT_EQ(gradients.size(), 2u);

  TG_TRY(StepResult three, session->step({{"x", points(3)}, {"y", line(3)}}));
  TG_TRY(auto module3, session->moduleFor("train", {{"x", {3, 1}}, {"y", {3, 1}}}));
  EXPECT_TRUE(three.applied);
  batch = module3->func("train")->arg("x")->type.shape[0];

  TG_TRY(auto forward, parse(kSlope, "slope.tgir"));
  TG_CHECK(session->attach(std::move(forward)));
  TG_TRY(CallOutputs slope, session->run("slope", {}));

  SessionOptions reading;
  reading.device = "interp";
  TG_TRY(reading.sharedParams, session->params());
  TG_TRY(auto other, parse(kSlope, "slope.tgir"));
  TG_TRY(auto reader, Session::create(std::move(other), reading));
  slopeFound = slope.result("a")->at(0);
  EXPECT_EQ(reader->run("slope", {})->result("a")->at(0), slopeFound);

  TG_CHECK(session->setLearningRate(0.001));
  TG_CHECK(session->setLearningRate("cosine(0.01, 0.0, 100)"));
  TG_CHECK(session->setLearningRate([](int64_t step) { return 0.01 / static_cast<double>(step); }));
  TG_CHECK(session->resetLearningRate());
  return {};
}

TEST(SessionTourTest, learnsTheLine) {
  double last = 1, slope = 0;
  int64_t batch = 0;
  auto done = tour(last, slope, batch);
  ASSERT_TRUE(done) << done.error().str();
  EXPECT_LT(last, 1e-3);
  EXPECT_NEAR(slope, 2, 0.1);
  EXPECT_EQ(batch, 3);
}

std::string readAll(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream out;
  out << file.rdbuf();
  return out.str();
}

TEST(SessionTourTest, thePageHasThisCode) {
  std::string page = readAll(TG_SOURCE_DIR "/docs/session.md");
  std::string source = readAll(TG_SOURCE_DIR "/test/unit/session_tour_test.cpp");
  int blocks = 0;
  const std::string open = "```cpp\n", close = "```";
  for (size_t at = 0; (at = page.find(open, at)) != std::string::npos; ++blocks) {
    at += open.size();
    size_t end = page.find(close, at);
    ASSERT_NE(end, std::string::npos);
    std::istringstream lines(page.substr(at, end - at));
    std::string indented, line;
    while (std::getline(lines, line)) indented += line.empty() ? "\n" : "  " + line + "\n";
    EXPECT_NE(source.find(indented), std::string::npos) << indented;
    at = end + close.size();
  }
  EXPECT_EQ(blocks, 6);
}

}  // namespace
}  // namespace tg
