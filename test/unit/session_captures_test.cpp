// SPDX-License-Identifier: Apache-2.0
// What a call can read besides its results.
#include "test/unit/session_support.h"

namespace tg {
namespace {

TEST_F(SessionTest, captureThatWasNotKeptIsCompiledOnce) {
  SessionOptions lean = options();
  lean.keepCaptures = "prediction";
  auto session = open(std::move(lean)), oracle = interpreter();
  auto expected = oracle->run("train", trainInputs(), {"hidden"});
  auto kept = session->run("train", trainInputs(), {"prediction"});
  ASSERT_TRUE(kept) << kept.error().message();
  EXPECT_FALSE(heard("compiled once more"));
  ASSERT_TRUE(session->reset({.seed = 3}));
  auto got = session->run("train", trainInputs(), {"hidden"});
  ASSERT_TRUE(got) << got.error().message();
  EXPECT_TRUE(heard("capture 'hidden' of @train is not kept"));
  expectClose(readOf(*got), readOf(*expected), 1e-6);
  expectClose(*session->downloadParams(), *oracle->downloadParams(), 1e-5);
  said_.clear();
  ASSERT_TRUE(session->run("train", trainInputs(), {"hidden", "prediction"}));
  EXPECT_FALSE(heard("compiled once more"));
  auto unknown = session->run("train", trainInputs(), {"hiden"});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().message(), "@train has no capture 'hiden'; it has hidden, prediction");
}

TEST_F(SessionTest, capturesSayWhatWasReadAndWhatThereIs) {
  auto session = open(options());
  auto step = session->step(trainInputs(), {"prediction"});
  ASSERT_TRUE(step) << step.error().str();
  const Captures& captures = step->captures;
  EXPECT_EQ(captures.names(), (std::vector<std::string>{"prediction"}));
  EXPECT_TRUE(captures.has("prediction"));
  EXPECT_FALSE(captures.has("hidden"));
  EXPECT_EQ(*captures.shape("hidden"), (Shape{5, 8}));
  EXPECT_EQ(
      messageOf(captures.get("hidden")),
      "this call did not read capture 'hidden' of @train; it read prediction: name 'hidden' in the call");
  EXPECT_EQ(messageOf(captures.get("p")), "@train has no capture 'p'; it has hidden, prediction");
  EXPECT_EQ(messageOf(captures.shape("p")), "@train has no capture 'p'; it has hidden, prediction");

  auto none = session->step(trainInputs());
  ASSERT_TRUE(none);
  EXPECT_TRUE(none->captures.names().empty());
  EXPECT_EQ(messageOf(none->captures.get("hidden")),
            "this call did not read capture 'hidden' of @train; it read none: name 'hidden' in the call");
  auto all = session->step(trainInputs(), {"*"});
  ASSERT_TRUE(all) << all.error().str();
  EXPECT_EQ(all->captures.names(), (std::vector<std::string>{"hidden", "prediction"}));
}

TEST_F(SessionTest, capturesCostNothingUntilACallAsks) {
  SessionOptions keeping = options();
  keeping.keepCaptures = "*";
  auto without = open(parsed(edited(edited(kModel, "    tg.capture %h {name = \"hidden\"}\n", ""),
                                    "    tg.capture %p {name = \"prediction\"}\n", "")),
                      options());
  auto session = open(options()), kept = open(std::move(keeping));
  const SessionInfo bare = without->info(), info = session->info(), all = kept->info();
  EXPECT_EQ(info.ioBytes, bare.ioBytes);
  EXPECT_EQ(info.arenaBytes, bare.arenaBytes);
  EXPECT_GT(all.ioBytes, info.ioBytes);
  EXPECT_EQ(*session->kernelCount("train"), *without->kernelCount("train"));
  // One call asks, with the compilation that costs; the next that asks finds it made.
  ASSERT_TRUE(session->step(trainInputs(), {"hidden"}));
  EXPECT_TRUE(heard("capture 'hidden' of @train is not kept"));
  said_.clear();
  ASSERT_TRUE(session->step(trainInputs(), {"hidden"}));
  EXPECT_FALSE(heard("compiled once more"));
}

TEST_F(SessionTest, capturedArraysAreCopies) {
  auto session = open(options());
  auto first = session->step(trainInputs(), {"hidden"});
  ASSERT_TRUE(first);
  HostArray before = *first->captures.get("hidden"), mine = before;
  mine.set(0, 99);
  ASSERT_TRUE(session->step(trainInputs(), {"hidden"}));
  EXPECT_EQ(first->captures.get("hidden")->bytes, before.bytes);
}

TEST_F(SessionTest, functionsWithoutCapturesSaySo) {
  auto session = open(options());
  Inputs inputs{{"x", ramp({2, 3}, 0, 1)}};
  EXPECT_EQ(messageOf(session->run("predict", inputs, {"hidden"})),
            "@predict has no captures: mark the values to read with tg.capture");
  EXPECT_EQ(messageOf(session->run("predict", inputs, {"*"})),
            "@predict has no captures: mark the values to read with tg.capture");
  auto plain = session->run("predict", inputs);
  ASSERT_TRUE(plain);
  EXPECT_TRUE(plain->captures.names().empty());
  EXPECT_EQ(messageOf(plain->captures.get("h")),
            "@predict has no capture 'h'; it has none: mark the value with tg.capture");
}

TEST(CapturesTest, headsAreTheFirstAxisBehindABatchOfOne) {
  HostArray flat = ramp({2, 3, 2}, 0, 1), batched = ramp({1, 2, 3, 2}, 0, 1), row = ramp({4}, 0, 1);
  Captures captures("f", {{"a", flat.type()}, {"b", batched.type()}, {"row", row.type()}},
                    {{"a", flat}, {"b", batched}, {"row", row}});
  for (const char* name : {"a", "b"}) {
    auto heads = captures.perHead(name);
    ASSERT_TRUE(heads) << heads.error().message();
    ASSERT_EQ(heads->size(), 2u);
    for (int64_t head = 0; head < 2; ++head) {
      const HostArray& part = (*heads)[static_cast<size_t>(head)];
      EXPECT_EQ(part.shape, (Shape{3, 2}));
      for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(part.at(i), static_cast<double>(head * 6 + i));
    }
  }
  EXPECT_FALSE(captures.perHead("row"));
  EXPECT_FALSE(captures.perHead("c"));
}

}  // namespace
}  // namespace tg
