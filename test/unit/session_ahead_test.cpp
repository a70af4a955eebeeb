// SPDX-License-Identifier: Apache-2.0
// Steps begun before the last one's outputs are read: the same bits as one after the other, whatever is
// called in between, and no waiting.
#include "runtime/compile.h"
#include "runtime/executor.h"
#include "test/unit/session_support.h"

namespace tg {
namespace {

/// The batch of a step, no two alike.
Inputs batchOf(int64_t step) {
  Inputs inputs = trainInputs();
  inputs.insert_or_assign("x", ramp({5, 3}, -1 + 0.05 * static_cast<double>(step), 0.15));
  return inputs;
}

/// Losses of `steps` steps, `ahead` of which are in flight when one is ended; 0 uses `step`.
std::vector<double> losses(Session& session, int64_t steps, size_t ahead) {
  std::vector<double> out;
  auto end = [&] {
    auto done = session.endStep();
    EXPECT_TRUE(done) << done.error().str();
    EXPECT_EQ(done ? done->step : 0, static_cast<int64_t>(out.size()) + 1);
    out.push_back(done ? done->loss : NAN);
  };
  for (int64_t step = 1; step <= steps; ++step) {
    if (ahead == 0) {
      out.push_back(session.step(batchOf(step))->loss);
      continue;
    }
    auto begun = session.beginStep(batchOf(step));
    EXPECT_TRUE(begun) << begun.error().str();
    EXPECT_EQ(*begun, step);
    if (session.stepsInFlight() == ahead) end();
  }
  while (session.stepsInFlight()) end();
  return out;
}

class SessionAhead : public SessionTest {
 protected:
  /// However many steps are in flight, every loss, parameter and gradient is that of steps by themselves.
  void expectSameBits(const std::string& text) {
    auto alone = open(parsed(text), options());
    ASSERT_TRUE(alone);
    const std::vector<double> expected = losses(*alone, 9, 0);
    EXPECT_NE(expected.front(), expected.back());
    for (const size_t ahead : {1u, 2u, 3u, 9u}) {
      auto session = open(parsed(text), options());
      ASSERT_TRUE(session);
      EXPECT_EQ(losses(*session, 9, ahead), expected) << ahead;
      EXPECT_TRUE(sameBits(*session->downloadParams(), *alone->downloadParams())) << ahead;
      EXPECT_TRUE(sameBits(*session->downloadStates(), *alone->downloadStates())) << ahead;
      EXPECT_TRUE(sameBits(*session->downloadParamGrads(), *alone->downloadParamGrads())) << ahead;
    }
  }

  /// Steps in flight with large inputs, no two alike. Returns the Vulkan objects that the session has made.
  int64_t expectInputsOfTheirStep(const SessionOptions& given) {
    std::string text = edited(kModel, "%x: tensor<5x3xf32>, %y: tensor<5x2xf32>",
                              "%x: tensor<5x3xf32>, %y: tensor<5x2xf32>, %more: tensor<700x512xf32>");
    text = edited(text, "return %loss : tensor<f32>",
                  "%m = tg.mean %more {axes = [0, 1]} : tensor<f32>\n"
                  "    %both = tg.add %loss, %m : tensor<f32>\n    return %both : tensor<f32>");
    auto small = open(parsed(kModel), options());
    const int64_t others = vulkan::liveHandles();
    auto session = open(parsed(text), given);
    EXPECT_GT(session->info().ioBytes, 1 << 20);
    for (int64_t step = 1; step <= 4; ++step) {
      Inputs inputs = batchOf(step);
      inputs.insert_or_assign("more", ramp({700, 512}, static_cast<double>(step), 0));
      auto begun = session->beginStep(inputs);
      EXPECT_TRUE(begun) << begun.error().str();
    }
    for (int64_t step = 1; step <= 4; ++step) {
      auto done = session->endStep();
      EXPECT_TRUE(done) << done.error().str();
      EXPECT_NEAR(done->loss, small->step(batchOf(step))->loss + static_cast<double>(step), 1e-4);
    }
    EXPECT_TRUE(sameBits(*session->downloadParams(), *small->downloadParams()));
    return vulkan::liveHandles() - others;
  }
};

TEST_F(SessionAhead, StepsGiveTheSameBits) { expectSameBits(kModel); }

// Rows enough that inputs, kept captures and gradients are copied to and from the lanes.
TEST_F(SessionAhead, SoDoThoseOfLargeValues) { expectInputsOfTheirStep(options()); }

/// On a device whose inputs are uploaded beside the work of earlier steps.
class SessionUploads : public SessionAhead {
 protected:
  void SetUp() override {
    vulkan::DeviceOptions staged;
    staged.validation = staged.stageTransfers = true;
    auto opened = vulkan::Device::open(staged);
    ASSERT_TRUE(opened) << opened.error().message();
    device_ = *opened;
    log_ = device_->validationLog();
    ASSERT_TRUE(device_->uploadsBeside());
  }
};

TEST_F(SessionUploads, InputsAreThoseOfTheirStep) {
  const int64_t before = expectInputsOfTheirStep(options());
  SessionOptions limited = options();
  limited.memory = "1GiB";
  EXPECT_LT(expectInputsOfTheirStep(limited), before) << "a budget leaves no memory for uploads";
}

// A result that is larger than a lane takes, and one that is the parameter itself, are read before the next
// step.
TEST_F(SessionAhead, LargeResultsAreThoseOfTheirStep) {
  constexpr const char* kWide = R"(
module @wide {
  param @w : tensor<17000001xf32> {init = zeros}
  func @train(%x: tensor<f32>) -> (loss: tensor<f32>, w: tensor<17000001xf32>) {
    %w = tg.param @w : tensor<17000001xf32>
    %new = tg.add %w, %x : tensor<17000001xf32>
    %loss = tg.neg %x : tensor<f32>
    tg.update @w, %new
    return %loss, %new : tensor<f32>, tensor<17000001xf32>
  }
}
)";
  SessionOptions plain = options();
  plain.trainPipeline = "";
  auto session = open(parsed(kWide), plain);
  ASSERT_TRUE(session);
  for (int step = 1; step <= 3; ++step) ASSERT_TRUE(session->beginStep({{"x", ramp({}, step, 0)}}));
  for (int step = 1, sum = 0; step <= 3; ++step) {
    auto done = session->endStep();
    ASSERT_TRUE(done) << done.error().str();
    EXPECT_EQ(done->loss, -step);
    sum += step;
    for (const int64_t i : {0, 4194304, 17000000}) EXPECT_EQ(done->result("w")->at(i), sum) << i;
  }
}

TEST_F(SessionAhead, OtherCallsComeAfterWhatWasBegun) {
  auto session = open(options()), alone = open(options());
  ASSERT_TRUE(session && alone);
  const Inputs rows{{"x", ramp({2, 3}, 0.5, 0.1)}};
  for (int64_t step = 1; step <= 6; ++step) {
    ASSERT_TRUE(session->beginStep(batchOf(step)));
    ASSERT_TRUE(alone->step(batchOf(step)));
    EXPECT_EQ(session->steps(), step);
    if (step % 2) {
      EXPECT_TRUE(sameBits(session->run("predict", rows)->results, alone->run("predict", rows)->results));
    }
    if (step == 3) {
      EXPECT_TRUE(sameBits(*session->downloadParams(), *alone->downloadParams()));
    }
    if (step == 4) {
      auto zero = ramp({8}, 0, 0);
      ASSERT_TRUE(session->uploadParams({{"b1", zero}}, {.partial = true}));
      ASSERT_TRUE(alone->uploadParams({{"b1", zero}}, {.partial = true}));
    }
  }
  EXPECT_EQ(session->stepsInFlight(), 6u);
  for (int64_t step = 1; step <= 6; ++step) EXPECT_EQ(session->endStep()->step, step);
  // A step by itself is ended by itself, before those that were begun.
  ASSERT_TRUE(session->beginStep(batchOf(7)));
  EXPECT_EQ(session->step(batchOf(8))->step, 8);
  EXPECT_EQ(session->endStep()->step, 7);
}

TEST_F(SessionAhead, UpdatesBelongToTheirSteps) {
  constexpr const char* kAccumulating = R"(
module @accumulating {
  param @w : tensor<4xf32> {init = zeros}
  state @g : tensor<4xf32>
  func @train(%x: tensor<4xf32>) -> (loss: tensor<f32>) {
    %w = tg.param @w : tensor<4xf32>
    %g = tg.state @g : tensor<4xf32>
    %sum = tg.add %g, %x : tensor<4xf32>
    %loss = tg.mean %w {axes = [0]} : tensor<f32>
    tg.update @g, %sum
    return %loss : tensor<f32>
  }
  func @apply() -> (norm: tensor<f32>) attributes {every = 3} {
    %w = tg.param @w : tensor<4xf32>
    %g = tg.state @g : tensor<4xf32>
    %new = tg.add %w, %g : tensor<4xf32>
    %norm = tg.mean %g {axes = [0]} : tensor<f32>
    tg.update @w, %new
    return %norm : tensor<f32>
  }
}
)";
  for (const bool onDevice : {true, false}) {
    SessionOptions plain = onDevice ? options() : interpOptions();
    plain.trainPipeline = "";
    auto session = open(parsed(kAccumulating), plain);
    ASSERT_TRUE(session);
    for (int64_t step = 1; step <= 7; ++step) ASSERT_TRUE(session->beginStep({{"x", ramp({4}, 1, 0)}}));
    double w = 0;
    for (int64_t step = 1; step <= 7; ++step) {
      auto done = session->endStep();
      ASSERT_TRUE(done) << done.error().str();
      EXPECT_EQ(done->loss, w) << step;
      EXPECT_EQ(done->applied, step % 3 == 0);
      ASSERT_EQ(done->result("norm") != nullptr, step % 3 == 0);
      if (step % 3) continue;
      EXPECT_EQ(done->result("norm")->at(0), static_cast<double>(step));
      w += static_cast<double>(step);
    }
  }
}

TEST_F(SessionAhead, WhatCannotBeBegunLeavesNothing) {
  for (auto& session : {open(options()), interpreter()}) {
    ASSERT_TRUE(session);
    EXPECT_NE(messageOf(session->endStep()).find("no step is in flight"), std::string::npos);
    EXPECT_FALSE(session->beginStep({{"x", ramp({5, 3}, 0, 1)}}));
    EXPECT_EQ(session->stepsInFlight(), 0u);
    EXPECT_EQ(session->steps(), 0);
    ASSERT_TRUE(session->beginStep(batchOf(1)));
    ASSERT_TRUE(session->replaceModule(model()));
    EXPECT_EQ(session->stepsInFlight(), 0u);
    EXPECT_FALSE(session->endStep());
    ASSERT_TRUE(session->beginStep(batchOf(1)));
    session->close();
    EXPECT_EQ(session->endStep().status(), CallStatus::aborted);
  }
}

// The device still reads the inputs of a call that nobody waits for.
TEST_F(SessionAhead, ADroppedCallKeepsItsInputs) {
  constexpr const char* kSum = R"(
module @sum {
  param @w : tensor<256x256xf32> {init = zeros}
  func @train(%x: tensor<256x256xf32>) -> (loss: tensor<f32>) {
    %w = tg.param @w : tensor<256x256xf32>
    %a = tg.matmul %x, %x : tensor<256x256xf32>
    %b = tg.matmul %a, %x : tensor<256x256xf32>
    %c = tg.matmul %b, %x : tensor<256x256xf32>
    %new = tg.add %w, %c : tensor<256x256xf32>
    %loss = tg.mean %new {axes = [0, 1]} : tensor<f32>
    tg.update @w, %new
    return %loss : tensor<f32>
  }
}
)";
  auto done = compile(parsed(kSum), device_->info().target);
  ASSERT_TRUE(done) << done.error().str();
  auto executor = Executor::create(*done->module, device_);
  ASSERT_TRUE(executor) << executor.error().str();
  // Of a matrix of equal elements v the elements of the fourth power are 256³·v⁴.
  for (const double v : {0.125, 0.25, 0.5})
    ASSERT_TRUE((*executor)->begin("train", Inputs{{"x", ramp({256, 256}, v, 0)}}, false));
  auto last = (*executor)->run("train", Inputs{{"x", ramp({256, 256}, 0, 0)}}, false);
  ASSERT_TRUE(last) << last.error().str();
  EXPECT_EQ(last->results[0].second.at(0), 256. * 256 * 256 * (1. / 4096 + 1. / 256 + 1. / 16));
}

// A step of much work is not done when beginStep returns. (Now and then a thread sleeps that long.)
TEST_F(SessionAhead, TheHostDoesNotWait) {
  constexpr const char* kHeavy = R"(
module @heavy {
  param @w : tensor<1024x1024xf32> {init = randn(0.01)}
  func @train(%x: tensor<f32>) -> (loss: tensor<f32>) {
    %w = tg.param @w : tensor<1024x1024xf32>
    %a = tg.mul %w, %x : tensor<1024x1024xf32>
    %b = tg.matmul %a, %w : tensor<1024x1024xf32>
    %c = tg.matmul %b, %w : tensor<1024x1024xf32>
    %d = tg.matmul %c, %w : tensor<1024x1024xf32>
    %loss = tg.mean %d {axes = [0, 1]} : tensor<f32>
    return %loss : tensor<f32>
  }
}
)";
  SessionOptions plain = options();
  plain.trainPipeline = "";
  auto session = open(parsed(kHeavy), plain);
  ASSERT_TRUE(session);
  const Inputs inputs{{"x", ramp({}, 1, 0)}};
  ASSERT_TRUE(session->step(inputs));
  bool returnedBefore = false;
  for (int attempt = 0; attempt < 5 && !returnedBefore; ++attempt) {
    const uint64_t before = *device_->completed();
    ASSERT_TRUE(session->beginStep(inputs));
    ASSERT_TRUE(session->beginStep(inputs));
    returnedBefore = *device_->completed() == before;
    while (session->stepsInFlight()) ASSERT_TRUE(session->endStep());
  }
  EXPECT_TRUE(returnedBefore);
}

}  // namespace
}  // namespace tg
