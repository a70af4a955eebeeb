// SPDX-License-Identifier: Apache-2.0
// What a program may ask of the trainer, an evaluation and a sampler, and is refused.
#include <cmath>
#include <string>

#include "ir/parser.h"
#include "runtime/train/evaluation.h"
#include "runtime/train/sampler.h"
#include "runtime/train/trainer.h"
#include "test/unit/data_test_support.h"

namespace tg {
namespace {

constexpr const char* kLanguage = R"(
module @m {
  param @w : tensor<4x4xf32>
  func @predict(%t: tensor<1x5xi32>) -> (logits: tensor<1x5x4xf32>) {
    %w = tg.param @w : tensor<4x4xf32>
    %e = tg.embedding %w, %t : tensor<1x5x4xf32>
    return %e : tensor<1x5x4xf32>
  }
}
)";

TEST(Sampler, RefusesWhatItCannotDrawBy) {
  SessionOptions options;
  options.device = "interp";
  options.seed = 1;
  auto module = parse(kLanguage, "m.tgir");
  ASSERT_OK(module);
  auto session = Session::create(std::move(*module), options);
  ASSERT_OK(session);
  auto predict = predictor(*(*session)->module());
  ASSERT_OK(predict);
  const Vocabulary letters = Vocabulary::ofText("abcd");
  std::string text;
  auto sample = [&](SampleOptions wanted, const std::function<bool(const std::string&)>& sink) {
    wanted.prompt = "ab";
    wanted.tokens = 3;
    auto done = Sampler(**session, **predict, letters, wanted).run(sink);
    return done ? "none" : done.error().message();
  };
  auto keep = [&](const std::string& token) {
    text += token;
    return true;
  };
  EXPECT_EQ(sample({}, keep), "none");
  EXPECT_EQ(text.size(), 3u);
  EXPECT_EQ(sample({}, {}), "the function that receives the sampled text is empty");
  EXPECT_EQ(sample({.temperature = NAN}, keep), "the temperature is NaN");
  EXPECT_EQ(text.size(), 3u);
}

constexpr const char* kEvaluated = R"(
module @m {
  param @w : tensor<2xf32>
  func @train(%x: tensor<2xf32>) -> (loss: tensor<f32>) {
    %w = tg.param @w : tensor<2xf32>
    %p = tg.mul %w, %x : tensor<2xf32>
    %loss = tg.mean %p {axes = [0]} : tensor<f32>
    return %loss : tensor<f32>
  }
  func @eval(%x: tensor<2xf32>) RESULT
}
)";

/// The same array in each batch of training and of evaluation.
class Ones : public Feed {
 public:
  Result<Inputs> batch(int64_t, Inputs) const override {
    Inputs inputs;
    inputs.emplace("x", HostArray::of(std::vector<float>{1, 1}));
    return inputs;
  }
  Result<Inputs> evalBatch(int64_t, Inputs) const override { return batch(1, {}); }
  int64_t itemsPerStep() const override { return 1; }
  std::string unit() const override { return "rows"; }
  int64_t stepsIn(int64_t) const override { return 0; }
  int64_t evalBatches() const override { return 3; }
  const Vocabulary* vocabulary() const override { return nullptr; }
  std::string fingerprint() const override { return ""; }
  std::vector<std::string> describe() const override { return {}; }
};

std::unique_ptr<Session> evaluated(const std::string& result) {
  std::string text = kEvaluated;
  text.replace(text.find("RESULT"), 6, result);
  auto module = parse(text, "m.tgir");
  EXPECT_TRUE(module) << module.error().str();
  SessionOptions options;
  options.device = "interp";
  options.trainPipeline = "append-grad,append-sgd{lr=0.1}";
  auto session = Session::create(std::move(*module), options);
  EXPECT_TRUE(session) << session.error().str();
  return std::move(*session);
}

constexpr const char* kSum = R"(-> (loss: tensor<f32>) {
    %s = tg.sum %x {axes = [0]} : tensor<f32>
    return %s : tensor<f32>
  })";

TEST(Evaluation, NeedsALossAndBatches) {
  const Ones feed;
  bool failed = false;
  auto loss = [&](const std::string& result, int64_t batches) {
    auto got = evaluate(*evaluated(result), feed, batches, failed, nullptr);
    return got ? std::to_string((*got)->loss) : got.error().message();
  };
  EXPECT_EQ(loss(kSum, 0), "2.000000");
  EXPECT_EQ(loss(kSum, 2), "2.000000");
  EXPECT_EQ(loss(kSum, -4), "the batches of an evaluation are 0 or more, not -4");
  EXPECT_EQ(loss("{ return }", 0), "@eval gives no loss, which is its first result, of one element");
  EXPECT_EQ(loss("-> (x: tensor<2xf32>) { return %x : tensor<2xf32> }", 0),
            "@eval gives no loss, which is its first result, of one element");
}

TEST(Trainer, OfAClosedSession) {
  const Ones feed;
  auto session = evaluated(kSum);
  session->close();
  TrainObserver observer;
  TrainControl control;
  auto summary = Trainer(*session, feed, {.steps = 2}, {}).run(observer, control);
  ASSERT_FALSE(summary);
  EXPECT_EQ(summary.error().message(), "the session is closed");
}

}  // namespace
}  // namespace tg
