// SPDX-License-Identifier: Apache-2.0
// Sessions and their modules: attached functions, replacement, a look inside, calls the module has nothing
// for.
#include <limits>

#include "runtime/compile.h"
#include "test/unit/run_passes.h"
#include "test/unit/session_support.h"

namespace tg {
namespace {

/// A function over two of the small model's parameters.
constexpr const char* kForward = R"(
module @forward {
  param @b1 : tensor<8xf32>
  param @w1 : tensor<3x8xf32>
  func @hidden(%x: tensor<1x3xf32>) -> (z: tensor<1x8xf32>) {
    %w1 = tg.param @w1 : tensor<3x8xf32>
    %b1 = tg.param @b1 : tensor<8xf32>
    %z = tg.matmul %x, %w1 : tensor<1x8xf32>
    %a = tg.add %z, %b1 : tensor<1x8xf32>
    return %a : tensor<1x8xf32>
  }
}
)";

Inputs oneRow() { return {{"x", ramp({1, 3}, 1, -0.5)}}; }

/// x·w1 + b1 in f64, from the session's parameters.
void expectHidden(Session& session) {
  auto got = session.run("hidden", oneRow());
  ASSERT_TRUE(got) << got.error().str();
  NamedArrays params = *session.downloadParams();
  const HostArray &w1 = params[0].second, &b1 = params[1].second, x = oneRow().at("x");
  for (int64_t j = 0; j < 8; ++j) {
    double sum = b1.at(j);
    for (int64_t i = 0; i < 3; ++i) sum += x.at(i) * w1.at(i * 8 + j);
    EXPECT_NEAR(got->results[0].second.at(j), sum, 1e-6);
  }
}

TEST_F(SessionTest, attachedFunctionsSeeEveryStep) {
  for (auto& session : {open(options()), interpreter()}) {
    lossAfter(*session, 2);
    auto attached = session->attach(parsed(kForward));
    ASSERT_TRUE(attached) << attached.error().str();
    expectHidden(*session);
    lossAfter(*session, 2);
    expectHidden(*session);
    EXPECT_EQ(session->steps(), 4);
    EXPECT_EQ(*session->outputShape("hidden"), (Shape{1, 8}));
  }
}

TEST_F(SessionTest, attachRefusesWhatTheSessionLacks) {
  auto session = open(options());
  EXPECT_EQ(messageOf(session->attach(parsed(edited(kForward, "@w1", "@w9")))),
            "attach: the session has no param @w9; it has @w1, @b1, @w2");
  EXPECT_EQ(messageOf(session->attach(parsed(edited(edited(kForward, "3x8", "3x9"), "8xf32", "9xf32")))),
            "attach: @b1 is tensor<9xf32>, in the session tensor<8xf32>");
  EXPECT_EQ(messageOf(session->attach(parsed(edited(kForward, "@hidden", "@train")))),
            "attach: the session has a function @train already");
  ASSERT_TRUE(session->attach(parsed(kForward)));
  EXPECT_EQ(messageOf(session->attach(parsed(kForward))),
            "attach: the session has a function @hidden already");
  expectHidden(*session);
  EXPECT_EQ(lossAfter(*session, 1), lossAfter(*open(options()), 1));
}

TEST_F(SessionTest, forwardFunctionsAreASessionOfTheirOwn) {
  SessionOptions plain = options();
  plain.trainPipeline = "";
  auto session = open(parsed(kForward), plain);
  ASSERT_TRUE(session);
  EXPECT_EQ(messageOf(session->step(oneRow())), "there is no function @train; the module has @hidden");
  auto got = session->run("hidden", oneRow());
  ASSERT_TRUE(got);
  plain.trainFunction = "hidden";
  auto wrong = open(parsed(kForward), plain);
  EXPECT_EQ(messageOf(wrong->step(oneRow())), "step needs a loss, a rank-0 f32, as the first result of "
                                              "@hidden, which is 'z' : tensor<1x8xf32>; call it with run");
  EXPECT_TRUE(wrong->run("hidden", oneRow()));
}

TEST_F(SessionTest, withoutUpdatesAStepGivesLossAndGradients) {
  SessionOptions gradients = options();
  gradients.trainPipeline = "append-grad";
  auto session = open(gradients), trained = open(options());
  NamedArrays before = *session->downloadParams();
  EXPECT_EQ(lossAfter(*session, 1), lossAfter(*trained, 1));
  expectClose(*session->downloadParamGrads(), *trained->downloadParamGrads(), 1e-6);
  EXPECT_TRUE(sameBits(*session->downloadParams(), before));
  EXPECT_EQ(
      messageOf(session->setLearningRate(0.1)),
      "setLearningRate: no function has an argument {host = \"lr\"}, the rate of its updates; append-adam "
      "makes one, as in the train pipeline append-grad,append-adam");
  gradients.trainPipeline = "";
  auto plain = open(gradients);
  EXPECT_EQ(lossAfter(*plain, 1), lossAfter(*session, 1));
  EXPECT_NE(messageOf(plain->downloadParamGrads()).find("append-grad"), std::string::npos);
}

/// The small model with the passes that train it on the module itself.
std::string ownTrainer(const std::string& passes) {
  return edited(kModel, "module @tiny {", "module @tiny attributes {train_pipeline = \"" + passes + "\"} {");
}

TEST(SessionModule, ItsOwnTrainPipelineTrains) {
  const std::string text = ownTrainer("append-grad,append-adam{lr=0.01}");
  ASSERT_NE(text, kModel);
  SessionOptions options = interpOptions();
  auto told = Session::create(model(), options);
  options.trainPipeline.reset();
  auto own = Session::create(parsed(text), options);
  ASSERT_TRUE(told && own);
  EXPECT_EQ(lossAfter(**own, 5), lossAfter(**told, 5));
  EXPECT_TRUE(sameBits(*(*own)->downloadParams(), *(*told)->downloadParams()));
  EXPECT_TRUE((*own)->step(trainInputs())->applied);

  // What the caller says wins.
  options.trainPipeline = "append-grad,append-sgd{lr=0.5}";
  auto other = Session::create(parsed(text), options);
  ASSERT_TRUE(other) << other.error().str();
  EXPECT_FALSE((*other)->downloadStates()->size());
  options.trainPipeline = "";
  auto none = Session::create(parsed(text), options);
  ASSERT_TRUE(none);
  NamedArrays before = *(*none)->downloadParams();
  auto step = (*none)->step(trainInputs());
  ASSERT_TRUE(step);
  EXPECT_FALSE(step->applied);
  EXPECT_TRUE(sameBits(*(*none)->downloadParams(), before));
}

TEST(SessionModule, ItsOwnTrainPipelineRunsOnce) {
  SessionOptions options = interpOptions();
  options.trainPipeline.reset();
  for (const char* passes : {"append-grad", "append-grad,append-adam"}) {
    auto done = runPasses(parsed(ownTrainer("append-grad,append-adam")), passes);
    ASSERT_TRUE(done) << done.error().str();
    auto session = Session::create(std::move(done->module), options);
    EXPECT_TRUE(session) << passes << ": " << session.error().str();
  }
  // A module of forward functions has nothing to train.
  auto forward = runPasses(parsed(edited(ownTrainer("append-grad,append-adam"), "@train", "@loss")), "");
  ASSERT_TRUE(forward) << forward.error().str();
  EXPECT_TRUE(Session::create(std::move(forward->module), options));
  // Nor is it trained again for another batch size, replaced or broken in silence.
  auto broken = Session::create(parsed(ownTrainer("append-nothing")), options);
  ASSERT_FALSE(broken);
  EXPECT_NE(messageOf(broken).find("append-nothing"), std::string::npos) << messageOf(broken);
}

TEST(SessionModule, OptionsAreCheckedOnEveryDevice) {
  SessionOptions options = interpOptions();
  options.trainFunction = "fit";
  EXPECT_EQ(messageOf(Session::create(model(), options)),
            "there is no function @fit; the module has @predict, @train");
  options = interpOptions();
  options.memory = "much";
  EXPECT_EQ(messageOf(Session::create(model(), options)).substr(0, 8), "budget: ");
  options.memory = "1GiB";
  options.tuning = "/nowhere/tuning.txt";
  EXPECT_EQ(messageOf(Session::create(model(), options)),
            "/nowhere/tuning.txt: cannot open: No such file or directory");
  options.tuning.clear();
  EXPECT_TRUE(Session::create(model(), options));
}

TEST(SessionModule, StepsThatCannotBeCountedAreRefused) {
  auto session = *Session::create(model(), interpOptions());
  constexpr int64_t most = int64_t{1} << 53;
  for (int64_t steps : {std::numeric_limits<int64_t>::max(), most + 1, int64_t{-1}})
    EXPECT_EQ(messageOf(session->setSteps(steps)),
              "setSteps: " + std::to_string(steps) + " is not from 0 to 9007199254740992");
  ASSERT_TRUE(session->setSteps(most));
  EXPECT_EQ(session->step(trainInputs())->step, most + 1);
}

TEST(SessionModule, NullIsAnError) {
  SessionOptions options = interpOptions();
  EXPECT_EQ(messageOf(Session::create(nullptr, options)), "Session::create: the module is null");
  auto session = Session::create(model(), options);
  ASSERT_TRUE(session);
  const double loss = lossAfter(**session, 1);
  EXPECT_EQ(messageOf((*session)->attach(nullptr)), "attach: the module is null");
  EXPECT_EQ(messageOf((*session)->replaceModule(nullptr)), "replaceModule: the module is null");
  EXPECT_EQ((*session)->steps(), 1);
  EXPECT_LT(lossAfter(**session, 1), loss);
  EXPECT_EQ(messageOf(compile(nullptr, Target{})), "compile: the module is null");
}

TEST_F(SessionTest, replacedModuleStartsOver) {
  auto session = open(options());
  ASSERT_TRUE(session->attach(parsed(kForward)));
  lossAfter(*session, 3);
  std::string half = edited(kModel, "tg.square %d", "tg.abs %d");
  auto replaced = session->replaceModule(parsed(half), {.seed = 9, .optimizer = {}});
  ASSERT_TRUE(replaced) << replaced.error().str();
  EXPECT_EQ(session->steps(), 0);
  EXPECT_FALSE(session->downloadParamGrads());
  expectHidden(*session);
  auto fresh = open(parsed(half), options(9));
  EXPECT_TRUE(sameBits(*session->downloadParams(), *fresh->downloadParams()));
  EXPECT_EQ(lossAfter(*session, 4), lossAfter(*fresh, 4));
  expectHidden(*session);
}

TEST_F(SessionTest, refusedReplacementChangesNothing) {
  auto session = open(options()), alone = open(options());
  ASSERT_TRUE(session->attach(parsed(kForward)));
  lossAfter(*session, 2);
  EXPECT_FALSE(session->replaceModule(parsed(edited(kModel, "%s = tg.square %d", "%s = tg.matmul %d, %d"))));
  // The attached function would lose its parameter.
  EXPECT_EQ(messageOf(session->replaceModule(parsed(edited(kModel, "@b1", "@c1")))),
            "attach: the session has no param @b1; it has @w1, @c1, @w2");
  EXPECT_EQ(lossAfter(*session, 2), lossAfter(*alone, 4));
  EXPECT_EQ(session->steps(), 4);
  expectHidden(*session);
}

TEST_F(SessionTest, anotherOptimizerIsRefused) {
  auto session = open(options());
  std::string momentum = R"(module @plain {
  param @w1 : tensor<3x8xf32>
  func @train() -> (loss: tensor<f32>) attributes {optimizer = "sgd"} {
    %w = tg.param @w1 : tensor<3x8xf32>
    %loss = tg.mean %w {axes = [0, 1]} : tensor<f32>
    return %loss : tensor<f32>
  }
})";
  EXPECT_EQ(messageOf(session->replaceModule(parsed(momentum), {.seed = {}, .optimizer = "append-grad"})),
            "replaceModule: the session trains with adam, the new module with sgd: make a session of its own "
            "for that");
  EXPECT_TRUE(session->step(trainInputs()));
  ASSERT_TRUE(session->replaceModule(model(), {.seed = {}, .optimizer = "append-grad,append-adam{lr=0.5}"}));
  EXPECT_EQ(session->step(trainInputs())->learningRate, 0.5);
}

TEST_F(SessionTest, lookInside) {
  auto session = open(options());
  EXPECT_EQ((*session->module(Stage::tensor))->stage, Stage::tensor);
  EXPECT_NE(print(**session->module(Stage::tensor)).find("tg.param_grad @w1"), std::string::npos);
  for (Stage stage : {Stage::fused, Stage::planned, Stage::kernel, Stage::spirv}) {
    auto at = session->module(stage);
    ASSERT_TRUE(at) << at.error().str();
    EXPECT_EQ((*at)->stage, stage);
  }
  EXPECT_EQ(print(**session->module(Stage::spirv)), print(*session->module()));
  EXPECT_EQ(*session->kernelCount("predict"), 2);
  EXPECT_EQ(messageOf(session->kernelCount("fit")),
            "there is no function @fit; the module has @predict, @train");
  EXPECT_EQ(*session->outputShape("train"), Shape{});
  EXPECT_EQ(*session->outputShape("predict", "p"), (Shape{2, 2}));
  EXPECT_EQ(messageOf(session->outputShape("predict", "q")), "@predict has no result 'q'; it has p");
  auto finished = open(std::move(*session->module(Stage::spirv)), [&] {
    SessionOptions plain = options();
    plain.trainPipeline = "";
    return plain;
  }());
  EXPECT_NE(messageOf(finished->module(Stage::fused)).find("keeps no earlier one"), std::string::npos);
  EXPECT_EQ(*interpreter()->kernelCount("train"), 0);
}

TEST_F(SessionTest, schedulesAreReplacedWhileTraining) {
  auto session = open(options());
  EXPECT_EQ(session->step(trainInputs())->learningRate, 0.01);
  ASSERT_TRUE(session->setLearningRate("linear(1.0, 0.0, 4)"));
  EXPECT_EQ(session->step(trainInputs())->learningRate, 0.75);
  ASSERT_TRUE(session->setLearningRate([](int64_t step) { return 0.125 * static_cast<double>(step); }));
  EXPECT_EQ(session->step(trainInputs())->learningRate, 0.125);
  EXPECT_EQ(session->step(trainInputs())->learningRate, 0.25);
  EXPECT_FALSE(session->setLearningRate("liner(1.0)"));
  EXPECT_FALSE(session->setLearningRate(1.0, 5)) << "four steps are done";
  EXPECT_EQ(session->step(trainInputs())->learningRate, 0.375);
  ASSERT_TRUE(session->reset());
  EXPECT_EQ(session->step(trainInputs())->learningRate, 0.125);
  ASSERT_TRUE(session->resetLearningRate());
  EXPECT_EQ(session->step(trainInputs())->learningRate, 0.01);
  // Counted from the first step of the training: two are done.
  ASSERT_TRUE(session->setLearningRate("linear(1.0, 0.0, 4)", 0));
  EXPECT_EQ(session->step(trainInputs())->learningRate, 0.25);
}

}  // namespace
}  // namespace tg
