// SPDX-License-Identifier: Apache-2.0
// Random ops in a session: the host's key, the seed, the step, and both executors drawing the same.
#include <gtest/gtest.h>

#include "ir/parser.h"
#include "runtime/session.h"

namespace tg {
namespace {

constexpr const char* kNoisyModel = R"(
module @noisy {
  param @w : tensor<37xf32> {init = ones}
  func @train(%x: tensor<37xf32>, %rng: tensor<2xi32> {host = "rng"}) -> (loss: tensor<f32>, drawn: tensor<37xf32>, dropped: tensor<37xf32>) {
    %w = tg.param @w : tensor<37xf32>
    %u = tg.random_uniform %rng {salt = 1} : tensor<37xf32>
    %a = tg.mul %w, %x : tensor<37xf32>
    %d = tg.dropout %a, %rng {p = 0.5, salt = 2} : tensor<37xf32>
    %s = tg.sum %d {axes = [0]} : tensor<f32>
    return %s, %u, %d : tensor<f32>, tensor<37xf32>, tensor<37xf32>
  }
  func @sample(%rng: tensor<2xi32> {host = "rng"}) -> (drawn: tensor<5xf32>) {
    %u = tg.random_uniform %rng {salt = 1} : tensor<5xf32>
    return %u : tensor<5xf32>
  }
  func @other(%key: tensor<2xi32> {host = "rng"}) -> (drawn: tensor<5xf32>) {
    %u = tg.random_uniform %key {salt = 1} : tensor<5xf32>
    return %u : tensor<5xf32>
  }
}
)";

/// Whether elements of two arrays are 0 at the same places.
bool sameZeros(const HostArray& a, const HostArray& b) {
  for (int64_t i = 0; i < a.elements(); ++i)
    if ((a.at(i) == 0) != (b.at(i) == 0)) return false;
  return true;
}

class RandomSession : public ::testing::Test {
 protected:
  std::unique_ptr<Session> open(const std::string& device, uint64_t seed) {
    SessionOptions options;
    options.device = device;
    options.validation = device != "interp";
    options.seed = seed;
    options.trainPipeline = "append-grad";
    auto module = parse(kNoisyModel, "noisy.tgir");
    EXPECT_TRUE(module) << module.error().str();
    auto session = Session::create(std::move(*module), std::move(options));
    EXPECT_TRUE(session) << session.error().str();
    return session ? std::move(*session) : nullptr;
  }
  static StepResult step(Session& session) {
    HostArray x = HostArray::zeros(DType::f32, {37});
    for (int64_t i = 0; i < 37; ++i) x.set(i, 1 + static_cast<double>(i) / 8);
    Inputs inputs;
    inputs.emplace("x", std::move(x));
    auto done = session.step(inputs);
    EXPECT_TRUE(done) << done.error().str();
    return done ? std::move(*done) : StepResult{};
  }
};

TEST_F(RandomSession, ExecutorsDrawTheSameBits) {
  auto gpu = open("auto", 7), interpreter = open("interp", 7);
  for (int i = 0; i < 3; ++i) {
    StepResult a = step(*gpu), b = step(*interpreter);
    EXPECT_EQ(a.results.at(1).second.bytes, b.results.at(1).second.bytes) << i;
    EXPECT_TRUE(sameZeros(a.results.at(2).second, b.results.at(2).second)) << i;
  }
}

TEST_F(RandomSession, SeedsRepeatAndStepsDiffer) {
  auto first = open("auto", 7), second = open("auto", 7), other = open("auto", 8);
  StepResult a = step(*first), b = step(*second), c = step(*other), next = step(*first);
  for (size_t r = 0; r < 3; ++r) {
    EXPECT_EQ(a.results[r].second.bytes, b.results[r].second.bytes) << r;
    EXPECT_NE(a.results[r].second.bytes, c.results[r].second.bytes) << r;
    EXPECT_NE(a.results[r].second.bytes, next.results[r].second.bytes) << r;
  }
  // A session that goes on from step 1 draws what the second step of a whole run draws.
  second = open("auto", 7);
  ASSERT_TRUE(second->setSteps(1));
  EXPECT_EQ(step(*second).results[1].second.bytes, next.results[1].second.bytes);
}

std::vector<std::byte> drawn(Session& session, const std::string& function, const Inputs& inputs = {}) {
  auto out = session.run(function, inputs);
  EXPECT_TRUE(out) << out.error().str();
  return out ? out->results.front().second.bytes : std::vector<std::byte>();
}

TEST_F(RandomSession, EachCallOfAFunctionDrawsAnew) {
  for (const char* device : {"auto", "interp"}) {
    auto session = open(device, 7), again = open(device, 7), resumed = open(device, 7);
    HostArray key = HostArray::zeros(DType::i32, {2});
    key.i32()[0] = 5;
    std::vector<std::vector<std::byte>> seen;
    for (int i = 0; i < 4; ++i) {
      if (i == 2) step(*session), step(*again);
      for (int call = 0; call < 3; ++call) {
        seen.push_back(drawn(*session, "sample"));
        // The same calls draw the same, whatever is called beside them, and a given key stands for itself.
        drawn(*again, "other");
        const auto given = drawn(*again, "sample", {{"rng", key}});
        EXPECT_EQ(given, drawn(*session, "sample", {{"rng", key}}));
        EXPECT_EQ(drawn(*again, "sample"), seen.back());
      }
      if (i == 0 || i == 2) step(*session), step(*again);
    }
    for (size_t a = 0; a < seen.size(); ++a)
      for (size_t b = 0; b < a; ++b) EXPECT_NE(seen[a], seen[b]) << device << " " << a << " " << b;
    // What is drawn behind a step needs no history but the step's number.
    ASSERT_TRUE(resumed->setSteps(1));
    EXPECT_EQ(drawn(*resumed, "sample"), seen[3]);
    EXPECT_EQ(drawn(*resumed, "sample"), seen[4]);
    ASSERT_TRUE(session->reset({.seed = 7}));
    EXPECT_EQ(drawn(*session, "sample"), seen[0]);
    EXPECT_EQ(drawn(*session, "sample"), seen[1]);
  }
}

TEST_F(RandomSession, AFailedCallDrawsNothing) {
  auto session = open("interp", 7), other = open("interp", 7);
  EXPECT_FALSE(session->run("sample", {{"x", HostArray::zeros(DType::f32, {1})}}));
  EXPECT_EQ(drawn(*session, "sample"), drawn(*other, "sample"));
}

// d loss/d w is x/(1-p) where the forward pass kept the element, 0 where it dropped it.
TEST_F(RandomSession, TheGradientHasTheForwardsMask) {
  for (const char* device : {"auto", "interp"}) {
    auto session = open(device, 21);
    const HostArray dropped = step(*session).results.at(2).second;
    auto grads = session->downloadParamGrads();
    ASSERT_TRUE(grads) << grads.error().str();
    const HostArray& dw = grads->at(0).second;
    int kept = 0;
    for (int64_t i = 0; i < 37; ++i) {
      EXPECT_EQ(dw.at(i), dropped.at(i) == 0 ? 0 : 2 * (1 + static_cast<double>(i) / 8)) << device << i;
      kept += dropped.at(i) != 0;
    }
    EXPECT_GT(kept, 5);
    EXPECT_LT(kept, 32);
  }
}

}  // namespace
}  // namespace tg
