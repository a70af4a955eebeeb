// SPDX-License-Identifier: Apache-2.0
// Sessions on a Vulkan device under the validation layer, against the reference interpreter.
#include "test/unit/session_support.h"

namespace tg {
namespace {

TEST_F(SessionTest, trainsAsTheInterpreterDoes) {
  auto session = open(options()), oracle = interpreter();
  ASSERT_TRUE(session && oracle);
  EXPECT_TRUE(sameBits(*session->downloadParams(), *oracle->downloadParams()));
  double first = lossAfter(*session, 1);
  EXPECT_NEAR(first, lossAfter(*oracle, 1), 1e-6);
  expectClose(*session->downloadParamGrads(), *oracle->downloadParamGrads(), 1e-6);
  double last = lossAfter(*session, 30);
  EXPECT_NEAR(last, lossAfter(*oracle, 30), 1e-4);
  EXPECT_LT(last, first / 4);
  expectClose(*session->downloadParams(), *oracle->downloadParams(), 1e-4);
  expectClose(*session->downloadStates(), *oracle->downloadStates(), 1e-4);
  EXPECT_GT(*session->kernelCount("train"), 0);
  EXPECT_EQ(session->info().parameters, 3 * 8 + 8 + 8 * 2);
}

TEST_F(SessionTest, functionsShareTheParameters) {
  auto session = open(options()), oracle = interpreter();
  lossAfter(*session, 3);
  lossAfter(*oracle, 3);
  Inputs inputs;
  inputs.emplace("x", ramp({2, 3}, -0.5, 0.2));
  auto got = session->run("predict", inputs), expected = oracle->run("predict", inputs);
  ASSERT_TRUE(got && expected);
  expectClose(got->results, expected->results, 1e-5);
  EXPECT_EQ(session->steps(), 3);
}

TEST_F(SessionTest, repeatsBitForBitAndResumes) {
  auto once = open(options()), again = open(options()), resumed = open(options(77));
  lossAfter(*once, 8);
  lossAfter(*again, 4);
  ASSERT_TRUE(resumed->uploadParams(*again->downloadParams()));
  ASSERT_TRUE(resumed->uploadStates(*again->downloadStates()));
  ASSERT_TRUE(resumed->setSteps(again->steps()));
  lossAfter(*again, 4);
  EXPECT_TRUE(sameBits(*once->downloadParams(), *again->downloadParams()));
  EXPECT_EQ(lossAfter(*resumed, 4), lossAfter(*open(options()), 8));
  EXPECT_TRUE(sameBits(*once->downloadParams(), *resumed->downloadParams()));
  EXPECT_TRUE(sameBits(*once->downloadStates(), *resumed->downloadStates()));
  EXPECT_FALSE(sameBits(*once->downloadParams(), *open(options(4))->downloadParams()));
}

TEST_F(SessionTest, resetStartsOver) {
  auto session = open(options());
  NamedArrays first = *session->downloadParams();
  double loss = lossAfter(*session, 1);
  lossAfter(*session, 5);
  ASSERT_TRUE(session->reset({.seed = 3}));
  EXPECT_EQ(session->steps(), 0);
  EXPECT_TRUE(sameBits(*session->downloadParams(), first));
  EXPECT_EQ(lossAfter(*session, 1), loss);
  lossAfter(*session, 2);
  NamedArrays kept = *session->downloadParams();
  ASSERT_TRUE(session->resetOptimizerState());
  EXPECT_TRUE(sameBits(*session->downloadParams(), kept));
  NamedArrays states = *session->downloadStates();
  for (const auto& [name, value] : states)
    for (int64_t i = 0; i < value.elements(); ++i) EXPECT_EQ(value.at(i), 0) << name;
}

TEST_F(SessionTest, aSeedThatNobodyGivesIsDrawnAndTold) {
  SessionOptions unsaid = options();
  unsaid.seed.reset();
  auto one = open(unsaid), other = open(unsaid);
  EXPECT_NE(one->seed(), other->seed());
  EXPECT_FALSE(sameBits(*one->downloadParams(), *other->downloadParams()));
  // What is told gives the same values again, and each reset without a seed gives new ones.
  auto again = open(options(one->seed()));
  EXPECT_TRUE(sameBits(*one->downloadParams(), *again->downloadParams()));
  NamedArrays first = *one->downloadParams();
  const uint64_t before = one->seed();
  ASSERT_TRUE(one->resetOptimizerState());
  EXPECT_EQ(one->seed(), before);
  ASSERT_TRUE(one->reset());
  EXPECT_NE(one->seed(), before);
  EXPECT_FALSE(sameBits(*one->downloadParams(), first));
}

TEST_F(SessionTest, learningRateOfTheHost) {
  auto session = open(options());
  NamedArrays before = *session->downloadParams();
  ASSERT_TRUE(session->setLearningRate(0.0));
  auto step = session->step(trainInputs());
  ASSERT_TRUE(step);
  EXPECT_EQ(step->learningRate, 0);
  EXPECT_TRUE(sameBits(*session->downloadParams(), before));
  ASSERT_TRUE(session->resetLearningRate());
  step = session->step(trainInputs());
  EXPECT_EQ(step->learningRate, 0.01);
  EXPECT_FALSE(sameBits(*session->downloadParams(), before));
}

TEST_F(SessionTest, gradientsMustBeKept) {
  auto session = open(options());
  EXPECT_NE(session->downloadParamGrads().error().message().find("before the first step"), std::string::npos);
  SessionOptions without = options();
  without.keepGrads = false;
  auto lean = open(std::move(without));
  lossAfter(*lean, 1);
  auto grads = lean->downloadParamGrads();
  ASSERT_FALSE(grads);
  EXPECT_NE(grads.error().message().find("keepGrads"), std::string::npos);
}

TEST_F(SessionTest, gradientsComeInTheModulesOrder) {
  for (bool interp : {false, true}) {
    SessionOptions given = options();
    if (interp) given.device = "interp";
    auto session = open(given);
    lossAfter(*session, 1);
    std::vector<std::string> names;
    const NamedArrays grads = *session->downloadParamGrads();
    for (const auto& [name, value] : grads) names.push_back(name);
    EXPECT_EQ(names, session->paramNames());
    given.keepGrads = false;
    auto lean = open(given);
    lossAfter(*lean, 1);
    EXPECT_EQ(messageOf(lean->downloadParamGrads()).substr(0, 26), "@train keeps no gradients:") << interp;
  }
}

// A flag is 0 or 1; a device and the interpreter would take other bytes to be different things.
TEST_F(SessionTest, flagsAreZeroOrOne) {
  const char* text = R"(
module @flags {
  state @kept : tensor<2xi1>
  func @f(%m: tensor<3xi1>, %x: tensor<3xf32>) -> (r: tensor<3xf32>) {
    %r = tg.select %m, %x, %x : tensor<3xf32>
    return %r : tensor<3xf32>
  }
}
)";
  for (SessionOptions given : {options(), interpOptions()}) {
    given.trainPipeline = "";
    auto session = open(parsed(text), given);
    HostArray flags = HostArray::zeros(DType::i1, {3});
    flags.i32()[2] = 1;
    const HostArray x = ramp({3}, 0, 1);
    EXPECT_EQ(messageOf(session->run("f", {{"m", flags}, {"x", x}})), "no error");
    for (int32_t wrong : {2, 255, -1}) {
      flags.i32()[1] = wrong;
      EXPECT_EQ(messageOf(session->run("f", {{"m", flags}, {"x", x}})),
                "@f: input 'm' of type tensor<3xi1> has elements of 0 and 1, and element 1 is " +
                    std::to_string(wrong));
    }
    HostArray kept = HostArray::zeros(DType::i1, {2});
    kept.i32()[0] = 7;
    const std::string refused = "@kept of type tensor<2xi1> has elements of 0 and 1, and element 0 is 7";
    EXPECT_EQ(messageOf(session->uploadStates({{"kept", kept}})), refused);
    const NamedArrays arrays{{"kept", kept}};
    EXPECT_NE(messageOf(session->writeTensors(ItemKind::state, sourceOf(arrays))).find(refused.substr(1)),
              std::string::npos);
    TensorSource bytes = sourceOf(arrays);
    bytes.read = [&](size_t, int64_t, std::span<std::byte> out) -> Result<void> {
      std::copy_n(kept.bytes.begin(), out.size(), out.begin());
      return {};
    };
    EXPECT_EQ(messageOf(session->writeTensors(ItemKind::state, bytes)), refused);
  }
}

TEST_F(SessionTest, arraysOfNoShapeAreRefused) {
  for (const SessionOptions& given : {options(), interpOptions()}) {
    auto session = open(given);
    Inputs inputs = trainInputs();
    for (Shape shape : {Shape{-8, 2}, Shape{-1}, Shape{int64_t{1} << 47, 4}}) {
      inputs["x"] = HostArray::zeros(DType::f32, shape);
      EXPECT_TRUE(inputs["x"].bytes.empty());
      EXPECT_NE(messageOf(session->step(inputs)).find("input 'x'"), std::string::npos);
    }
    EXPECT_EQ(session->steps(), 0);
  }
}

TEST_F(SessionTest, wrongInputsRunNothing) {
  auto session = open(options());
  NamedArrays before = *session->downloadParams();
  Inputs missing = trainInputs();
  missing.erase("y");
  EXPECT_EQ(session->step(missing).error().message(), "@train: input 'y' of type tensor<5x2xf32> is missing");
  Inputs wrong = trainInputs();
  wrong.insert_or_assign("y", ramp({2, 5}, 0, 1));
  EXPECT_EQ(session->step(wrong).error().message(),
            "@train: input 'y' is tensor<2x5xf32>, but tensor<5x2xf32> is expected");
  // An array whose elements are not those of its shape is not read.
  Inputs cut = trainInputs();
  cut.at("y").bytes.resize(3);
  EXPECT_EQ(session->step(cut).error().message(),
            "@train: input 'y' of type tensor<5x2xf32> takes 40 bytes, and 3 were given");
  cut.at("y").bytes.resize(400);
  EXPECT_FALSE(session->step(cut));
  Inputs extra = trainInputs();
  extra.emplace("z", ramp({1}, 0, 1));
  EXPECT_NE(session->step(extra).error().message().find("has no input 'z'"), std::string::npos);
  EXPECT_EQ(session->run("fit", {}).error().message(),
            "there is no function @fit; the module has @predict, @train");
  EXPECT_TRUE(sameBits(*session->downloadParams(), before));
  EXPECT_EQ(session->steps(), 0);
}

}  // namespace
}  // namespace tg
