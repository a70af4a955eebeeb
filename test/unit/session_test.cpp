// Sessions on a Vulkan device under the validation layer, against the reference interpreter.
#include "runtime/session.h"

#include <algorithm>
#include <cmath>
#include <thread>

#include <gtest/gtest.h>

#include "ir/parser.h"
#include "runtime/executor.h"
#include "runtime/finish.h"

namespace tg {
namespace {

constexpr const char* kModel = R"(
module @tiny {
  param @w1 : tensor<3x8xf32> {init = kaiming}
  param @b1 : tensor<8xf32> {init = zeros}
  param @w2 : tensor<8x2xf32> {init = xavier}
  func @train(%x: tensor<5x3xf32>, %y: tensor<5x2xf32>) -> (loss: tensor<f32>) {
    %w1 = tg.param @w1 : tensor<3x8xf32>
    %b1 = tg.param @b1 : tensor<8xf32>
    %w2 = tg.param @w2 : tensor<8x2xf32>
    %z = tg.matmul %x, %w1 : tensor<5x8xf32>
    %a = tg.add %z, %b1 : tensor<5x8xf32>
    %h = tg.tanh %a : tensor<5x8xf32>
    %p = tg.matmul %h, %w2 : tensor<5x2xf32>
    %d = tg.sub %p, %y : tensor<5x2xf32>
    %s = tg.square %d : tensor<5x2xf32>
    %loss = tg.mean %s {axes = [0, 1]} : tensor<f32>
    tg.capture %h {name = "hidden"}
    tg.capture %p {name = "prediction"}
    return %loss : tensor<f32>
  }
  func @predict(%x: tensor<2x3xf32>) -> (p: tensor<2x2xf32>) {
    %w1 = tg.param @w1 : tensor<3x8xf32>
    %b1 = tg.param @b1 : tensor<8xf32>
    %w2 = tg.param @w2 : tensor<8x2xf32>
    %z = tg.matmul %x, %w1 : tensor<2x8xf32>
    %a = tg.add %z, %b1 : tensor<2x8xf32>
    %h = tg.tanh %a : tensor<2x8xf32>
    %p = tg.matmul %h, %w2 : tensor<2x2xf32>
    return %p : tensor<2x2xf32>
  }
}
)";

std::unique_ptr<Module> model() {
  auto module = parse(kModel, "tiny.tgir");
  EXPECT_TRUE(module) << module.error().message();
  return std::move(*module);
}

HostArray ramp(Shape shape, double first, double step) {
  HostArray out = HostArray::zeros(DType::f32, shape);
  for (int64_t i = 0; i < out.elements(); ++i) out.set(i, first + step * static_cast<double>(i));
  return out;
}

Inputs trainInputs() {
  Inputs inputs;
  inputs.emplace("x", ramp({5, 3}, -1, 0.15));
  inputs.emplace("y", ramp({5, 2}, 0.5, -0.1));
  return inputs;
}

void expectClose(const NamedArrays& got, const NamedArrays& expected, double tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  for (const auto& [name, value] : expected) {
    auto own = std::find_if(got.begin(), got.end(), [&](const auto& entry) { return entry.first == name; });
    ASSERT_NE(own, got.end()) << name;
    ASSERT_EQ(own->second.type(), value.type()) << name;
    for (int64_t i = 0; i < value.elements(); ++i)
      ASSERT_NEAR(own->second.at(i), value.at(i), tolerance) << name << " " << i;
  }
}

bool sameBits(const NamedArrays& a, const NamedArrays& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.first == y.first && x.second.bytes == y.second.bytes;
  });
}

/// One open device per test; afterwards nothing may be left alive or have been reported.
class SessionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    vulkan::DeviceOptions options;
    options.validation = true;
    auto opened = vulkan::Device::open(options);
    ASSERT_TRUE(opened) << opened.error().message();
    device_ = *opened;
    log_ = device_->validationLog();
  }
  void TearDown() override {
    device_.reset();
    if (!log_) return;
    for (const std::string& message : log_->messages()) ADD_FAILURE() << message;
    EXPECT_EQ(vulkan::liveHandles(), 0);
  }

  SessionOptions options(uint64_t seed = 3) {
    SessionOptions options;
    options.shared = device_;
    options.seed = seed;
    options.trainPipeline = "append-grad,append-adam{lr=0.01}";
    options.onDiagnostic = [this](const Diagnostic& diagnostic) { said_.push_back(diagnostic.message); };
    return options;
  }
  std::unique_ptr<Session> open(SessionOptions options) {
    auto session = Session::create(model(), std::move(options));
    EXPECT_TRUE(session) << session.error().str();
    return session ? std::move(*session) : nullptr;
  }
  std::unique_ptr<Session> interpreter(uint64_t seed = 3) {
    SessionOptions plain = options(seed);
    plain.shared = nullptr;
    plain.device = "interp";
    return open(std::move(plain));
  }
  bool heard(const std::string& part) const {
    return std::any_of(said_.begin(), said_.end(),
                       [&](const std::string& text) { return text.find(part) != std::string::npos; });
  }

  std::shared_ptr<vulkan::Device> device_;
  std::shared_ptr<vulkan::ValidationLog> log_;
  std::vector<std::string> said_;
};

double lossAfter(Session& session, int steps) {
  double loss = 0;
  for (int i = 0; i < steps; ++i) {
    auto step = session.step(trainInputs());
    EXPECT_TRUE(step) << step.error().str();
    if (!step) return NAN;
    loss = step->loss;
  }
  return loss;
}

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
  EXPECT_GT(*session->kernels("train"), 0);
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
  resumed->setSteps(again->steps());
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
  ASSERT_TRUE(session->reset(3));
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

TEST_F(SessionTest, learningRateOfTheHost) {
  auto session = open(options());
  NamedArrays before = *session->downloadParams();
  session->setLearningRate(0.0);
  auto step = session->step(trainInputs());
  ASSERT_TRUE(step);
  EXPECT_EQ(step->learningRate, 0);
  EXPECT_TRUE(sameBits(*session->downloadParams(), before));
  session->setLearningRate(std::nullopt);
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

TEST_F(SessionTest, captureThatWasNotKeptIsCompiledOnce) {
  SessionOptions lean = options();
  lean.keepCaptures = "prediction";
  auto session = open(std::move(lean)), oracle = interpreter();
  auto expected = oracle->run("train", trainInputs(), {"hidden"});
  auto kept = session->run("train", trainInputs(), {"prediction"});
  ASSERT_TRUE(kept) << kept.error().message();
  EXPECT_FALSE(heard("compiled once more"));
  ASSERT_TRUE(session->reset(3));
  auto got = session->run("train", trainInputs(), {"hidden"});
  ASSERT_TRUE(got) << got.error().message();
  EXPECT_TRUE(heard("capture 'hidden' of @train is not kept"));
  expectClose(got->captures, expected->captures, 1e-6);
  expectClose(*session->downloadParams(), *oracle->downloadParams(), 1e-5);
  said_.clear();
  ASSERT_TRUE(session->run("train", trainInputs(), {"hidden", "prediction"}));
  EXPECT_FALSE(heard("compiled once more"));
  auto unknown = session->run("train", trainInputs(), {"hiden"});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().message(), "@train has no capture 'hiden'; it has hidden, prediction");
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
  Inputs extra = trainInputs();
  extra.emplace("z", ramp({1}, 0, 1));
  EXPECT_NE(session->step(extra).error().message().find("has no input 'z'"), std::string::npos);
  EXPECT_EQ(session->run("fit", {}).error().message(),
            "there is no function @fit; the module has @predict, @train");
  EXPECT_TRUE(sameBits(*session->downloadParams(), before));
  EXPECT_EQ(session->steps(), 0);
}

TEST_F(SessionTest, uploadsAreAllOrNothing) {
  auto session = open(options());
  NamedArrays before = *session->downloadParams();
  HostArray w2 = ramp({8, 2}, 1, 1);
  EXPECT_EQ(session->uploadParams({{"w2", w2}}).error().message(),
            "no value for @w1, @b1; a part alone wants `partial`");
  EXPECT_FALSE(session->uploadParams({{"w2", w2}, {"w3", w2}}, true));
  EXPECT_FALSE(session->uploadParams({{"w2", w2}, {"b1", w2}}, true));
  EXPECT_TRUE(sameBits(*session->downloadParams(), before));
  ASSERT_TRUE(session->uploadParams({{"w2", w2}}, true));
  EXPECT_EQ((*session->downloadParams())[2].second.bytes, w2.bytes);
}

TEST_F(SessionTest, callsFromThreadsAreServedInTurn) {
  auto session = open(options()), alone = open(options());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { lossAfter(*session, 5); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(session->steps(), 20);
  lossAfter(*alone, 20);
  EXPECT_TRUE(sameBits(*session->downloadParams(), *alone->downloadParams()));
}

/// The finished module as text, to be edited.
std::string finished(const Target& target) {
  auto trained = runPasses(model(), "append-grad,append-adam{lr=0.01}");
  EXPECT_TRUE(trained) << trained.error().str();
  auto done = finish(std::move(trained->module), target);
  EXPECT_TRUE(done) << done.error().str();
  return print(*done->module);
}

TEST_F(SessionTest, finishedModulesRunAsTheyAre) {
  std::string text = finished(device_->info().target);
  SessionOptions plain = options();
  plain.trainPipeline.clear();
  auto session = Session::create(std::move(*parse(text, "done.tgir")), plain);
  ASSERT_TRUE(session) << session.error().str();
  auto stripped = runPasses(std::move(*parse(text, "done.tgir")), "strip-kernels");
  ASSERT_TRUE(stripped) << stripped.error().str();
  EXPECT_EQ(print(*stripped->module).find("tgk."), std::string::npos);
  auto bare = Session::create(std::move(stripped->module), plain);
  ASSERT_TRUE(bare) << bare.error().str();
  EXPECT_EQ(lossAfter(**session, 5), lossAfter(**bare, 5));
  EXPECT_TRUE(sameBits(*(*session)->downloadParams(), *(*bare)->downloadParams()));
}

TEST_F(SessionTest, commandsAreThoseOfTheText) {
  auto module = parse(finished(device_->info().target), "done.tgir");
  ASSERT_TRUE(module);
  auto executor = Executor::create(**module, device_);
  ASSERT_TRUE(executor) << executor.error().str();
  for (const char* function : {"train", "predict"}) {
    std::map<Opcode, int64_t> written;
    for (const auto& op : (*module)->func(function)->body.ops) ++written[op->code];
    auto counts = (*executor)->counts(function);
    ASSERT_TRUE(counts);
    EXPECT_EQ(counts->dispatches, written[Opcode::dispatch]);
    EXPECT_EQ(counts->barriers, written[Opcode::barrier]);
    EXPECT_EQ(counts->copies, written[Opcode::copy]);
    EXPECT_EQ(counts->fills, written[Opcode::fill]);
    EXPECT_GT(counts->barriers, 0) << function;
  }
}

TEST_F(SessionTest, everyShippedTargetRunsWhereItsLimitsFit) {
  auto oracle = interpreter();
  double expected = lossAfter(*oracle, 3);
  for (std::string_view name : targetNames()) {
    SessionOptions other = options();
    other.target = *targetByName(name);
    auto session = open(std::move(other));
    ASSERT_TRUE(session) << name;
    EXPECT_NEAR(lossAfter(*session, 3), expected, 1e-5) << name;
  }
}

TEST_F(SessionTest, editedKernelIsRefused) {
  std::string text = finished(device_->info().target);
  size_t at = text.find("kernel_hash = \"") + 15;
  text[at] = text[at] == '0' ? '1' : '0';
  auto module = parse(text, "edited.tgir");
  ASSERT_TRUE(module);
  auto executor = Executor::create(**module, device_);
  ASSERT_FALSE(executor);
  EXPECT_NE(executor.error().message().find("is not made of the kernel beside it"), std::string::npos);
}

TEST_F(SessionTest, limitsAreRefusedByName) {
  const Target& own = device_->info().target;
  Target larger = own;
  larger.storageRange *= 2;
  larger.maxInvocations += 1;
  auto module = parse(finished(larger), "larger.tgir");
  ASSERT_TRUE(module);
  auto executor = Executor::create(**module, device_);
  ASSERT_FALSE(executor);
  EXPECT_NE(executor.error().message().find("storage_range"), std::string::npos);
  EXPECT_NE(executor.error().message().find("max_invocations"), std::string::npos);
  EXPECT_EQ(executor.error().message().find("shared_bytes"), std::string::npos);

  Target device = own;
  device.alignment = own.alignment * 2;
  EXPECT_FALSE(checkLimits(own, device, "other"));
  device = own;
  device.workgroup = own.workgroup * 2;
  device.reads = "storage";
  EXPECT_TRUE(checkLimits(own, device, "other"));
}

TEST_F(SessionTest, stagesTheDeviceCannotRun) {
  auto executor = Executor::create(*model(), device_);
  ASSERT_FALSE(executor);
  EXPECT_EQ(executor.error().message(), "a device runs modules of stage spirv; this one is of stage tensor");
}

}  // namespace
}  // namespace tg
