// SPDX-License-Identifier: Apache-2.0
// A batch size chosen by the inputs of a call, and gradients accumulated over several.
#include <algorithm>

#include "runtime/batch.h"
#include "test/unit/session_support.h"

namespace tg {
namespace {

/// The small model with the batch axes said.
std::unique_ptr<Module> batched() {
  std::string text = edited(kModel, "%x: tensor<5x3xf32>", "%x: tensor<5x3xf32> {batch = 0}");
  text = edited(text, "%y: tensor<5x2xf32>", "%y: tensor<5x2xf32> {batch = 0}");
  return parsed(edited(text, "%x: tensor<2x3xf32>", "%x: tensor<2x3xf32> {batch = 0}"));
}

Inputs rows(int64_t size) { return {{"x", ramp({size, 3}, -1, 0.15)}, {"y", ramp({size, 2}, 0.5, -0.1)}}; }

TEST_F(SessionTest, inputsChooseTheBatch) {
  auto session = open(batched(), options());
  for (int64_t size : {7, 1, 5, 7}) {
    ASSERT_TRUE(session->reset({.seed = 3}));
    SessionOptions plain = options();
    std::string n = std::to_string(size);
    auto fixed = open(parsed(edited(kModel, "<5x", "<" + n + "x")), plain);
    for (int i = 0; i < 3; ++i) {
      auto got = session->step(rows(size), {"hidden"});
      ASSERT_TRUE(got) << got.error().str();
      EXPECT_EQ(got->loss, fixed->step(rows(size))->loss) << size;
      EXPECT_EQ(*got->captures.shape("hidden"), (Shape{size, 8}));
      EXPECT_EQ(got->captures.get("hidden")->shape, (Shape{size, 8}));
    }
    EXPECT_TRUE(sameBits(*session->downloadParams(), *fixed->downloadParams()));
    EXPECT_TRUE(sameBits(*session->downloadStates(), *fixed->downloadStates()));
    EXPECT_TRUE(sameBits(*session->downloadParamGrads(), *fixed->downloadParamGrads()));
  }
}

// What is missing is named, whatever else does not fit without it.
TEST_F(SessionTest, aMissingInputIsNamedFirst) {
  auto session = open(batched(), interpOptions());
  const std::string missing = "@train: input 'y' of type tensor<5x2xf32> is missing";
  EXPECT_EQ(messageOf(session->step({{"x", ramp({7, 3}, 0, 1)}})), missing);
  EXPECT_EQ(messageOf(session->step({{"x", ramp({4}, 0, 1)}})), missing);
  EXPECT_EQ(messageOf(session->step({{"x", ramp({7, 3}, 0, 1)}, {"z", ramp({7, 2}, 0, 1)}})), missing);
  EXPECT_EQ(messageOf(session->run("train", {{"x", ramp({7, 3}, 0, 1)}})), missing);
  EXPECT_EQ(messageOf(session->moduleFor("train", {{"x", {7, 3}}})), missing);
  auto unknown = rows(7);
  unknown.emplace("z", ramp({7}, 0, 1));
  EXPECT_EQ(messageOf(session->step(unknown)), "@train has no input 'z'; it has x, y, lr");
  SessionOptions parts = interpOptions();
  parts.parts = 2;
  parts.trainPipeline = "append-grad{accumulate=2},append-adam{lr=0.01}";
  auto split = open(batched(), parts);
  EXPECT_EQ(messageOf(split->step({{"x", ramp({7, 3}, 0, 1)}})), missing);
}

// What no batch makes right is refused before the function is compiled for another one.
TEST_F(SessionTest, wrongInputsCompileNothing) {
  std::string told;
  SessionOptions listening = options();
  listening.onDiagnostic = [&](const Diagnostic& diagnostic) { told += diagnostic.message + "\n"; };
  const std::string scaled = edited(print(*batched()), "%y: tensor<5x2xf32> {batch = 0}",
                                    "%y: tensor<5x2xf32> {batch = 0}, %unused: tensor<3xf32>");
  auto session = open(parsed(scaled), listening);
  Inputs cut = rows(7);
  cut.emplace("unused", ramp({3}, 0, 1));
  cut.at("y").bytes.resize(3);
  EXPECT_EQ(messageOf(session->step(cut)),
            "@train: input 'y' of type tensor<7x2xf32> takes 56 bytes, and 3 were given");
  Inputs wide = rows(7);
  wide.emplace("unused", ramp({4}, 0, 1));
  EXPECT_EQ(messageOf(session->step(wide)),
            "@train: input 'unused' is tensor<4xf32>, but tensor<3xf32> is expected");
  EXPECT_EQ(told.find("compiled for a batch of"), std::string::npos) << told;
}

// Running moments are the model's own updates: its train_pipeline still differentiates it, for any batch.
TEST_F(SessionTest, updatesOfStatesAreNoGradients) {
  const std::string text = R"(
module @counting attributes {train_pipeline = "append-grad,append-sgd{lr=0.1}"} {
  param @w : tensor<3x2xf32> {init = ones}
  state @seen : tensor<f32>
  func @train(%x: tensor<5x3xf32> {batch = 0}, %y: tensor<5x2xf32> {batch = 0}) -> (loss: tensor<f32>) {
    %w = tg.param @w : tensor<3x2xf32>
    %seen = tg.state @seen : tensor<f32>
    %one = tg.constant 1.0 : tensor<f32>
    %more = tg.add %seen, %one : tensor<f32>
    tg.update @seen, %more
    %p = tg.matmul %x, %w : tensor<5x2xf32>
    %d = tg.sub %p, %y : tensor<5x2xf32>
    %q = tg.square %d : tensor<5x2xf32>
    %loss = tg.mean %q {axes = [0, 1]} : tensor<f32>
    return %loss : tensor<f32>
  }
}
)";
  for (SessionOptions given : {options(), interpOptions()}) {
    given.trainPipeline.reset();
    auto session = open(parsed(text), given);
    const double first = session->step(rows(5))->loss;
    for (int64_t size : {7, 5}) {
      auto step = session->step(rows(size));
      ASSERT_TRUE(step) << step.error().str();
      EXPECT_TRUE(step->applied);
    }
    EXPECT_LT(session->step(rows(5))->loss, first);
    const NamedArrays states = *session->downloadStates();
    const auto seen = std::ranges::find(states, "seen", &NamedArrays::value_type::first);
    ASSERT_NE(seen, states.end());
    EXPECT_EQ(seen->second.at(0), 4) << "one for each step";
  }
}

// A parameter that the text updates by itself, such as a centre or a count, does not make the function one that learns.
TEST_F(SessionTest, updatesOfSomeParamsAreNoGradients) {
  const std::string text = R"(
module @counting attributes {train_pipeline = "append-grad,append-sgd{lr=0.1}"} {
  param @w : tensor<3x2xf32> {init = ones}
  param @seen : tensor<f32> {init = zeros}
  func @train(%x: tensor<5x3xf32>, %y: tensor<5x2xf32>) -> (loss: tensor<f32>) {
    %w = tg.param @w : tensor<3x2xf32>
    %seen = tg.param @seen : tensor<f32>
    %one = tg.constant 1.0 : tensor<f32>
    %more = tg.add %seen, %one : tensor<f32>
    tg.update @seen, %more
    %p = tg.matmul %x, %w : tensor<5x2xf32>
    %d = tg.sub %p, %y : tensor<5x2xf32>
    %q = tg.square %d : tensor<5x2xf32>
    %loss = tg.mean %q {axes = [0, 1]} : tensor<f32>
    return %loss : tensor<f32>
  }
}
)";
  SessionOptions given = interpOptions();
  given.trainPipeline.reset();
  auto session = open(parsed(text), given);
  const double first = session->step(rows(5))->loss;
  for (int step = 0; step < 3; ++step) EXPECT_TRUE(session->step(rows(5)));
  EXPECT_LT(session->step(rows(5))->loss, first);
  const NamedArrays params = *session->downloadParams();
  const auto seen = std::ranges::find(params, "seen", &NamedArrays::value_type::first);
  ASSERT_NE(seen, params.end());
  EXPECT_EQ(seen->second.at(0), 5) << "one for each step";
}

TEST_F(SessionTest, oneTrainingUsesSeveralSizes) {
  auto session = open(batched(), options());
  auto oracle = open(batched(), interpOptions());
  for (int64_t size : {5, 3, 5, 8, 3}) {
    auto got = session->step(rows(size)), expected = oracle->step(rows(size));
    ASSERT_TRUE(got && expected);
    EXPECT_NEAR(got->loss, expected->loss, 1e-5);
  }
  expectClose(*session->downloadParams(), *oracle->downloadParams(), 1e-5);
  EXPECT_EQ(session->steps(), 5);
  auto four = session->run("predict", {{"x", ramp({4, 3}, 0, 0.1)}});
  ASSERT_TRUE(four) << four.error().str();
  EXPECT_EQ(four->results[0].second.shape, (Shape{4, 2}));
  expectClose(four->results, oracle->run("predict", {{"x", ramp({4, 3}, 0, 0.1)}})->results, 1e-5);
}

TEST_F(SessionTest, flatInputsAreWholeRows) {
  auto session = open(batched(), options()), other = open(batched(), options());
  Inputs flat{{"x", ramp({18}, -1, 0.15)}, {"y", ramp({12}, 0.5, -0.1)}};
  auto got = session->step(flat);
  ASSERT_TRUE(got) << got.error().str();
  EXPECT_EQ(got->loss, other->step(rows(6))->loss);
}

TEST_F(SessionTest, sizesThatDisagreeRunNothing) {
  auto session = open(batched(), options());
  NamedArrays before = *session->downloadParams();
  Inputs apart = rows(7);
  apart.insert_or_assign("y", ramp({6, 2}, 0, 1));
  EXPECT_EQ(messageOf(session->step(apart)), "@train: input 'x' implies a batch of 7, input 'y' one of 6");
  apart.insert_or_assign("y", ramp({13}, 0, 1));
  EXPECT_EQ(messageOf(session->step(apart)), "@train: input 'y' has 13 elements, which is not a multiple of "
                                             "2, the elements of tensor<5x2xf32> for a batch of one");
  apart.insert_or_assign("y", ramp({7, 3}, 0, 1));
  EXPECT_EQ(messageOf(session->step(apart)),
            "@train: input 'x' is tensor<7x3xf32>, but tensor<5x3xf32> is expected");
  apart.erase("y");
  EXPECT_FALSE(session->step(apart));
  EXPECT_FALSE(heard("compiled for a batch"));
  EXPECT_TRUE(sameBits(*session->downloadParams(), before));
  EXPECT_EQ(session->steps(), 0);
  EXPECT_TRUE(session->step(rows(7)));
}

TEST_F(SessionTest, leastRecentlyUsedSizeIsDropped) {
  SessionOptions few = options();
  few.cachedBatches = 2;
  auto session = open(batched(), few);
  auto compiles = [&](int64_t size) {
    said_.clear();
    EXPECT_TRUE(session->step(rows(size)));
    return heard("@train is compiled for a batch of " + std::to_string(size));
  };
  EXPECT_TRUE(compiles(2));
  EXPECT_TRUE(compiles(3));
  EXPECT_FALSE(compiles(2));
  EXPECT_TRUE(compiles(4));  // drops 3
  EXPECT_FALSE(compiles(2));
  EXPECT_FALSE(compiles(5));  // as written
  EXPECT_TRUE(compiles(3));   // drops 4
  EXPECT_TRUE(compiles(4));
  int64_t handles = vulkan::liveHandles();
  EXPECT_TRUE(compiles(2));  // drops 3
  EXPECT_TRUE(compiles(3));
  EXPECT_TRUE(compiles(4));
  EXPECT_EQ(vulkan::liveHandles(), handles) << "what the same sizes took before";
  EXPECT_EQ(session->downloadParamGrads()->size(), 3u);
}

TEST_F(SessionTest, gradientsForOneBatchOnly) {
  auto trained = open(batched(), options())->module(Stage::tensor);
  ASSERT_TRUE(trained);
  SessionOptions plain = options();
  plain.trainPipeline = "";
  auto session = open(std::move(*trained), plain);
  EXPECT_NE(messageOf(session->step(rows(7))).find("give the session the module without them"),
            std::string::npos);
  EXPECT_TRUE(session->step(rows(5)));
  auto finished = open(batched(), options())->module(Stage::spirv);
  auto late = open(std::move(*finished), plain);
  EXPECT_NE(messageOf(late->step(rows(7))).find("a later stage than tensor"), std::string::npos);
  EXPECT_TRUE(late->step(rows(5)));
}

TEST_F(SessionTest, moduleForShapes) {
  auto session = open(batched(), options());
  auto seven = session->moduleFor("train", {{"x", {7, 3}}, {"y", {7, 2}}});
  ASSERT_TRUE(seven) << seven.error().str();
  EXPECT_EQ((*seven)->func("train")->arg("x")->type.shape, (Shape{7, 3}));
  EXPECT_EQ(*session->moduleFor("train", {{"x", {5, 3}}, {"y", {5, 2}}}), session->module());
  EXPECT_FALSE(session->moduleFor("train", {{"x", {7, 3}}, {"y", {6, 2}}}));
  EXPECT_FALSE(session->moduleFor("train", {{"x", {7, 3}}}));
  // Shapes alone take no memory.
  const int64_t many = int64_t{1} << 38;
  EXPECT_EQ(messageOf(session->moduleFor("train", {{"x", {many, 4}}, {"y", {many, 2}}})),
            "@train: input 'x' is tensor<274877906944x4xf32>, but tensor<5x3xf32> is expected");
  EXPECT_FALSE(session->moduleFor("train", {{"x", {-3, 3}}, {"y", {-3, 2}}}));
  EXPECT_FALSE(session->moduleFor("train", {{"x", {7, 3}}, {"y", {7, 2}}, {"z", {1}}}));
}

/// Rows of both inputs from one on.
Inputs rowsFrom(const Inputs& whole, int64_t first, int64_t count) {
  Inputs out;
  for (const auto& [name, array] : whole) {
    HostArray part = HostArray::zeros(array.dtype, {count, array.shape[1]});
    for (int64_t i = 0; i < part.elements(); ++i) part.set(i, array.at(first * array.shape[1] + i));
    out.emplace(name, std::move(part));
  }
  return out;
}

// A step in parts is what as many calls with accumulated gradients are, and counts as one.
TEST_F(SessionTest, aStepInPartsSumsTheirGradients) {
  SessionOptions plain = options(), inParts = options();
  plain.trainPipeline = inParts.trainPipeline =
      "append-grad{accumulate=3},append-adam{lr=linear(0.1, 0.0, 4)}";
  inParts.parts = 3;
  auto calls = open(batched(), plain), whole = open(batched(), inParts);
  for (int step = 1; step <= 3; ++step) {
    const Inputs batch = rows(6);
    double sum = 0;
    StepResult last;
    for (int64_t part = 0; part < 3; ++part) {
      auto out = calls->step(rowsFrom(batch, 2 * part, 2));
      ASSERT_TRUE(out) << out.error().str();
      sum += out->loss;
      last = std::move(*out);
    }
    Inputs cut = rows(6);
    cut.begin()->second.bytes.clear();
    EXPECT_NE(whole->step(cut).error().message().find("and 0 were given"), std::string::npos);
    auto got = whole->step(batch);
    ASSERT_TRUE(got) << got.error().str();
    EXPECT_EQ(got->step, step);
    EXPECT_TRUE(got->applied);
    EXPECT_EQ(got->loss, static_cast<float>(sum / 3));
    EXPECT_EQ(got->learningRate, last.learningRate);
    EXPECT_TRUE(sameBits(*whole->downloadParams(), *calls->downloadParams()));
    EXPECT_TRUE(sameBits(*whole->downloadStates(), *calls->downloadStates()));
  }
  EXPECT_EQ(messageOf(whole->step(rows(7))),
            "@train: input 'x' has a batch of 7, which has no 3 equal parts");
  EXPECT_EQ(whole->steps(), 3);
  ASSERT_TRUE(whole->beginStep(rows(6)));
  ASSERT_TRUE(whole->beginStep(rows(6)));
  EXPECT_EQ(whole->endStep()->step, 4);
  EXPECT_EQ(whole->endStep()->step, 5);
  inParts.parts = 2;
  auto wrong = Session::create(batched(), inParts);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().message(), "a step of 2 parts needs append-grad{accumulate=2} or a multiple of it; "
                                     "the module updates after 3 calls");
}

// Rows that lie together are not copied; the others are columns of the caller's array.
TEST_F(SessionTest, aPartOfABatchIsAViewWhereItCanBe) {
  const auto module = parsed(R"(module @m attributes {stage = "tensor"} {
  func @train(%x: tensor<4x3xf32> {batch = 0}, %y: tensor<2x4xf32> {batch = 1}, %z: tensor<2xf32>) {
    return
  }
}
)");
  const Inputs whole{{"x", ramp({4, 3}, 0, 1)}, {"y", ramp({2, 4}, 0, 1)}, {"z", ramp({2}, 0, 1)}};
  Inputs copies;
  auto part = partOf(*module->func("train"), whole, 1, 2, copies);
  ASSERT_TRUE(part) << part.error().str();
  EXPECT_EQ(part->at("x").bytes.data(), whole.at("x").bytes.data() + 6 * sizeof(float));
  EXPECT_EQ(part->at("x").type(), Type::tensor(DType::f32, {2, 3}));
  EXPECT_EQ(part->at("x").at(5), 11);
  EXPECT_EQ(part->at("y").type(), Type::tensor(DType::f32, {2, 2}));
  std::vector<double> columns;
  for (int64_t i = 0; i < 4; ++i) columns.push_back(part->at("y").at(i));
  EXPECT_EQ(columns, (std::vector<double>{2, 3, 6, 7}));
  EXPECT_EQ(part->at("z").bytes.data(), whole.at("z").bytes.data());
}

// A step that fails has run no part of its batch.
TEST_F(SessionTest, aRefusedStepInPartsAddsNoGradients) {
  for (SessionOptions given : {options(), interpOptions()}) {
    given.parts = 2;
    given.trainPipeline = "append-grad{accumulate=2},append-adam{lr=0.1}";
    auto session = open(batched(), given), other = open(batched(), given);
    EXPECT_NE(messageOf(session->step(rows(6), {"nowhere"})).find("nowhere"), std::string::npos);
    EXPECT_EQ(session->steps(), 0);
    EXPECT_EQ(session->step(rows(6))->loss, other->step(rows(6))->loss);
    EXPECT_TRUE(sameBits(*session->downloadParams(), *other->downloadParams()));
  }
}

// Neither has one for whose update there is no rate: the step can be repeated with another one.
TEST_F(SessionTest, aStepWithoutARateForItsUpdateIsNotTaken) {
  for (SessionOptions given : {options(), interpOptions()}) {
    given.trainPipeline = "append-grad{accumulate=2},append-sgd{lr=0.5}";
    auto session = open(batched(), given), other = open(batched(), given);
    ASSERT_TRUE(session->setLearningRate([](int64_t) { return -1.0; }));
    ASSERT_TRUE(session->step(rows(5)));
    EXPECT_NE(messageOf(session->step(rows(5))).find("is -1 at its step 1"), std::string::npos);
    EXPECT_EQ(session->steps(), 1);
    ASSERT_TRUE(session->resetLearningRate());
    auto done = session->step(rows(5));
    ASSERT_TRUE(done) << done.error().str();
    EXPECT_EQ(done->step, 2);
    EXPECT_TRUE(done->applied);
    ASSERT_TRUE(other->step(rows(5)));
    ASSERT_TRUE(other->step(rows(5)));
    EXPECT_TRUE(sameBits(*session->downloadParams(), *other->downloadParams()));
  }
}

/// w ← w - lr·Σ over two steps of x/2, in place of gradients.
constexpr const char* kAccumulating = R"(
module @accumulating {
  param @w : tensor<4xf32> {init = ones}
  state @g.w : tensor<4xf32>
  func @train(%x: tensor<4xf32>) -> (loss: tensor<f32>) {
    %g = tg.state @g.w : tensor<4xf32>
    %half = tg.constant 0.5 : tensor<f32>
    %part = tg.mul %x, %half : tensor<4xf32>
    %sum = tg.add %g, %part : tensor<4xf32>
    %loss = tg.mean %x {axes = [0]} : tensor<f32>
    tg.update @g.w, %sum
    return %loss : tensor<f32>
  }
  func @apply(%lr: tensor<f32> {host = "lr", schedule = linear(1.0, 0.0, 4)}) -> (norm: tensor<f32>) attributes {every = 2} {
    %w = tg.param @w : tensor<4xf32>
    %g = tg.state @g.w : tensor<4xf32>
    %step = tg.mul %g, %lr : tensor<4xf32>
    %new = tg.sub %w, %step : tensor<4xf32>
    %zero = tg.constant 0.0 : tensor<4xf32>
    %norm = tg.mean %g {axes = [0]} : tensor<f32>
    tg.update @w, %new
    tg.update @g.w, %zero
    return %norm : tensor<f32>
  }
}
)";

TEST_F(SessionTest, applyIsCalledAfterEachNthStep) {
  SessionOptions plain = options();
  plain.trainPipeline = "";
  auto module = parse(kAccumulating, "accumulating.tgir");
  ASSERT_TRUE(module) << module.error().str();
  auto session = open(clone(**module), plain);
  ASSERT_TRUE(session);
  auto w = [&](Session& of) { return (*of.downloadParams())[0].second.at(0); };
  auto step = [&](Session& of, double x) {
    auto out = of.step({{"x", ramp({4}, x, 0)}});
    EXPECT_TRUE(out) << out.error().str();
    return std::move(*out);
  };
  StepResult first = step(*session, 1);
  EXPECT_FALSE(first.applied);
  EXPECT_EQ(first.result("norm"), nullptr);
  EXPECT_EQ(w(*session), 1);
  StepResult second = step(*session, 0.5);
  EXPECT_TRUE(second.applied);
  EXPECT_EQ(second.step, 2);
  EXPECT_EQ(second.learningRate, 0.75);  // the optimizer's first step
  EXPECT_EQ(second.result("norm")->at(0), 0.75);
  EXPECT_EQ(w(*session), 1 - 0.75 * 0.75);
  step(*session, 1);
  // The micro-step goes with the states into another session.
  auto resumed = open(clone(**module), plain);
  ASSERT_TRUE(resumed->uploadParams(*session->downloadParams()));
  ASSERT_TRUE(resumed->uploadStates(*session->downloadStates()));
  ASSERT_TRUE(resumed->setSteps(session->steps()));
  for (Session* each : {session.get(), resumed.get()}) {
    EXPECT_EQ(step(*each, 1).learningRate, 0.5);
    EXPECT_EQ(w(*each), 1 - 0.75 * 0.75 - 0.5);
  }
}

constexpr const char* kAveraging = R"(
module @averaging attributes {train_pipeline = "append-grad,append-sgd{lr=linear(1.0, 0.0, 10)}"} {
  param @w : tensor<f32> {init = ones}
  state @mean : tensor<f32> {init = constant(0)}
  state @calls : tensor<f32> {init = constant(0)}
  func @train(%x: tensor<f32>) -> (loss: tensor<f32>) {
    %w = tg.param @w : tensor<f32>
    %loss = tg.mul %w, %x : tensor<f32>
    return %loss : tensor<f32>
  }
  func @average() -> (mean: tensor<f32>) attributes {every = 3} {
    %w = tg.param @w : tensor<f32>
    %half = tg.constant 0.5 : tensor<f32>
    %m = tg.mul %w, %half : tensor<f32>
    tg.update @mean, %m
    return %m : tensor<f32>
  }
  func @count(%lr: tensor<f32> {host = "lr", schedule = constant(0.5)}) -> (calls: tensor<f32>) attributes {every = 2} {
    %c = tg.state @calls : tensor<f32>
    %one = tg.constant 1.0 : tensor<f32>
    %next = tg.add %c, %one : tensor<f32>
    tg.update @calls, %next
    return %next : tensor<f32>
  }
}
)";

TEST_F(SessionTest, eachFunctionWithEveryIsCalledInItsSteps) {
  for (const std::string accumulate : {"", "{accumulate=2}"})
    for (const bool onDevice : {true, false}) {
      SCOPED_TRACE(accumulate + (onDevice ? " device" : " interpreter"));
      SessionOptions choices = onDevice ? options() : interpOptions();
      choices.trainPipeline = "append-grad" + accumulate + ",append-sgd{lr=linear(1.0, 0.0, 10)}";
      auto module = parse(kAveraging, "averaging.tgir");
      ASSERT_TRUE(module) << module.error().str();
      auto session = open(*std::move(module), choices);
      ASSERT_TRUE(session);
      const int64_t perUpdate = accumulate.empty() ? 1 : 2;
      double w = 1;
      for (int64_t step = 1; step <= 7; ++step) {
        auto done = session->step({{"x", ramp({}, 1, 0)}});
        ASSERT_TRUE(done) << done.error().str();
        const bool updates = step % perUpdate == 0;
        EXPECT_EQ(done->applied, updates) << step;
        // The schedule counts updates, whatever else is called between steps.
        const double rate = 1 - 0.1 * static_cast<double>(step / perUpdate);
        if (updates) {
          EXPECT_NEAR(done->learningRate, rate, 1e-12) << step;
          w -= rate;
        }
        ASSERT_EQ(done->result("mean") != nullptr, step % 3 == 0) << step;
        if (step % 3 == 0) {
          EXPECT_NEAR(done->result("mean")->at(0), w / 2, 1e-5) << step;  // behind the update
        }
        ASSERT_EQ(done->result("calls") != nullptr, step % 2 == 0) << step;
        if (step % 2 == 0) {
          EXPECT_EQ(done->result("calls")->at(0), static_cast<double>(step) / 2);
        }
      }
    }
}

}  // namespace
}  // namespace tg
