// SPDX-License-Identifier: Apache-2.0
// Models whose loss goes through kernels of their own train on a device like the same models in tensor ops.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "ir/parser.h"
#include "ir/trace/trace.h"
#include "ir/verify.h"
#include "runtime/compile.h"
#include "runtime/executor.h"
#include "runtime/interp/tolerance.h"
#include "runtime/interp_runner.h"
#include "test/unit/run_passes.h"
#include "test/unit/sweep_runs.h"

namespace tg::test {
namespace {

/// The kernels of an example, as text.
std::string kernelsOf(const std::string& example) {
  auto module = parseFile(TG_SOURCE_DIR "/docs/examples/kernels/" + example + ".tgir");
  EXPECT_TRUE(module) << module.error().str();
  std::string text;
  if (module)
    for (const Item* item : (*module)->all(ItemKind::kernel)) text += print(*item);
  return text;
}

/// A module with @train; the lines between x, the params and the prediction %p are `body`.
std::string trained(const std::string& kernels, const std::string& params, const std::string& input,
                    const std::string& body, int rows) {
  return fmt::format(R"(module @model {{
{}{}
func @train(%x: {}, %y: tensor<{}x1xf32>) -> (loss: tensor<f32>) {{
{}
%d = tg.sub %p, %y : tensor<{}x1xf32>
%s = tg.square %d : tensor<{}x1xf32>
%loss = tg.mean %s {{axes = [0, 1]}} : tensor<f32>
return %loss : tensor<f32>
}}
}}
)",
                     params, kernels, input, rows, body, rows, rows);
}

const std::string kNormParams = R"(param @w1 : tensor<3x40xf32>
param @gain : tensor<40xf32>
param @b : tensor<40xf32>
param @w2 : tensor<40x1xf32>
)";
const std::string kNormHead = R"(%w1 = tg.param @w1 : tensor<3x40xf32>
%gain = tg.param @gain : tensor<40xf32>
%b = tg.param @b : tensor<40xf32>
%w2 = tg.param @w2 : tensor<40x1xf32>
%z = tg.matmul %x, %w1 : tensor<20x40xf32>
)";

/// Normalised rows, then a biased activation, as two kernels.
std::string normModel() {
  return trained(kernelsOf("row_norm") + kernelsOf("activation"), kNormParams, "tensor<20x3xf32>",
                 kNormHead + R"(%n = tg.custom @row_norm(%z, %gain) : tensor<20x40xf32>
%h = tg.custom @bias_mish(%n, %b) : tensor<20x40xf32>
%p = tg.matmul %h, %w2 : tensor<20x1xf32>)",
                 20);
}
std::string normTwin() {
  return trained("", kNormParams, "tensor<20x3xf32>", kNormHead + R"(%zz = tg.square %z : tensor<20x40xf32>
%m = tg.mean %zz {axes = [1], keepdims = true} : tensor<20x1xf32>
%e = tg.constant 1e-5 : tensor<f32>
%m2 = tg.add %m, %e : tensor<20x1xf32>
%r = tg.rsqrt %m2 : tensor<20x1xf32>
%zr = tg.mul %z, %r : tensor<20x40xf32>
%n = tg.mul %zr, %gain : tensor<20x40xf32>
%a = tg.add %n, %b : tensor<20x40xf32>
%soft = tg.softplus %a : tensor<20x40xf32>
%t = tg.tanh %soft : tensor<20x40xf32>
%h = tg.mul %a, %t : tensor<20x40xf32>
%p = tg.matmul %h, %w2 : tensor<20x1xf32>)",
                 20);
}

const std::string kStepParams = R"(param @w1 : tensor<2x24xf32>
param @u : tensor<24xf32>
param @w2 : tensor<24x1xf32>
)";
const std::string kStepHead = R"(%w1 = tg.param @w1 : tensor<2x24xf32>
%u = tg.param @u : tensor<24xf32>
%w2 = tg.param @w2 : tensor<24x1xf32>
%z = tg.matmul %x, %w1 : tensor<5x6x24xf32>
)";

/// A recurrence over five steps, as one kernel.
std::string stepModel() {
  return trained(kernelsOf("recurrence"), kStepParams, "tensor<5x6x2xf32>",
                 kStepHead + R"(%h = tg.custom @recurrence(%z, %u) : tensor<6x24xf32>
%p = tg.matmul %h, %w2 : tensor<6x1xf32>)",
                 6);
}
std::string stepTwin() {
  std::string body = kStepHead;
  for (int t = 0; t < 5; ++t) {
    body += fmt::format(
        "%c{0} = tg.slice %z {{starts = [{0}, 0, 0], limits = [{1}, 6, 24]}} : tensor<1x6x24xf32>\n"
        "%x{0} = tg.reshape %c{0} {{shape = [6, 24]}} : tensor<6x24xf32>\n",
        t, t + 1);
    if (t > 0)
      body += fmt::format("%q{0} = tg.mul %h{1}, %u : tensor<6x24xf32>\n%a{0} = tg.add %q{0}, %x{0} : "
                          "tensor<6x24xf32>\n%h{0} = tg.tanh %a{0} : tensor<6x24xf32>\n",
                          t, t - 1);
    else
      body += "%h0 = tg.tanh %x0 : tensor<6x24xf32>\n";
  }
  return trained("", kStepParams, "tensor<5x6x2xf32>", body + "%p = tg.matmul %h4, %w2 : tensor<6x1xf32>", 6);
}

std::unique_ptr<Module> training(const std::string& text) {
  auto module = parse(text, "model.tgir");
  if (!module) {
    ADD_FAILURE() << module.error().str() << text;
    return nullptr;
  }
  auto done = runPasses(*std::move(module), "append-grad,append-adam{lr=0.02}");
  if (done) return std::move(done->module);
  ADD_FAILURE() << done.error().str();
  return nullptr;
}

/// The same values for every module with these params and inputs.
NdArray values(const Type& type, uint32_t seed) {
  std::mt19937 random(seed);
  NdArray out = NdArray::zeros(type);
  for (double& value : out.data) value = roundTo(DType::f32, (random() + 0.5) / 4294967296.0 * 1.6 - 0.8);
  return out;
}

constexpr int kSteps = 6;

Arrays inputsOf(const Module& module, int step) {
  Arrays out;
  uint32_t seed = static_cast<uint32_t>(100 * step);
  for (const auto& arg : module.func("train")->body.args)
    out.emplace(arg->name, find(arg->attrs, "host") ? NdArray::scalar(roundTo(DType::f32, 0.02))
                                                    : values(arg->type, ++seed));
  return out;
}

template <class Set>
void setParams(const Module& module, const Set& set) {
  uint32_t seed = 7;
  for (const Item* item : module.all(ItemKind::param)) set(item->name, values(item->type, ++seed));
}

NdArray onHost(const Module& module, InterpMode mode) {
  InterpOptions options;
  options.mode = mode;
  auto interpreter = Interpreter::create(module, options);
  EXPECT_TRUE(interpreter);
  setParams(module, [&](const std::string& name, const NdArray& value) {
    EXPECT_TRUE(interpreter->setStorage(name, value));
  });
  NdArray losses = NdArray::zeros(Type::tensor(DType::f32, {kSteps}));
  for (int step = 0; step < kSteps; ++step) {
    auto run = interpreter->run("train", inputsOf(module, step));
    EXPECT_TRUE(run) << (run ? "" : run.error().str());
    if (run) losses.data[static_cast<size_t>(step)] = run->result("loss")->data[0];
  }
  return losses;
}

NdArray onDevice(Gpu& gpu, const Module& module) {
  NdArray losses = NdArray::zeros(Type::tensor(DType::f32, {kSteps}));
  auto finished = compile(clone(module), gpu.device()->info().target);
  EXPECT_TRUE(finished) << finished.error().str();
  if (!finished) return losses;
  auto executor = Executor::create(*finished->module, gpu.device());
  EXPECT_TRUE(executor) << executor.error().str();
  if (!executor) return losses;
  setParams(module, [&](const std::string& name, const NdArray& value) {
    EXPECT_TRUE((*executor)->setStorage(name, toHostArray(value)));
  });
  for (int step = 0; step < kSteps; ++step) {
    Inputs inputs;
    for (const auto& [name, value] : inputsOf(module, step)) inputs.emplace(name, toHostArray(value));
    auto run = (*executor)->run("train", inputs, false);
    EXPECT_TRUE(run) << (run ? "" : run.error().str());
    if (run) losses.data[static_cast<size_t>(step)] = run->result("loss")->at(0);
  }
  return losses;
}

/// The model's losses on the device are the twin's in f64, as near as the tolerance table asks.
void expectSameTraining(const std::string& own, const std::string& twin) {
  auto module = training(own), plain = training(twin);
  ASSERT_TRUE(module && plain);
  Gpu gpu;
  NdArray wide = onHost(*plain, InterpMode::wide), exact = onHost(*plain, InterpMode::exact);
  NdArray device = onDevice(gpu, *module);
  std::string why;
  EXPECT_TRUE(wholeFunctionClose(device, wide, exact, kWholeFunctionFloor, &why)) << why;
  EXPECT_TRUE(wholeFunctionClose(onDevice(gpu, *plain), wide, exact, kWholeFunctionFloor, &why)) << why;
  EXPECT_EQ(onDevice(gpu, *module).data, device.data) << "two runs differ";
  EXPECT_LT(wide.data.back(), wide.data.front());
}

TEST(KernelModels, NormAndActivationTrainLikeTensorOps) { expectSameTraining(normModel(), normTwin()); }
TEST(KernelModels, RecurrenceTrainsLikeTensorOps) { expectSameTraining(stepModel(), stepTwin()); }

TEST(KernelModels, FromCpp) {
  using namespace nn;
  const Kernel norm(kernelsOf("row_norm")), mish(kernelsOf("activation"));
  auto traced = trace([&]() -> Outputs {
    Tensor x = tensorInput("x", {20, 3}), y = tensorInput("y", {20, 1});
    Tensor w1 = paramInput("w1", {3, 40}), gain = paramInput("gain", {40}), b = paramInput("b", {40});
    Tensor w2 = paramInput("w2", {40, 1});
    Tensor n = custom(norm, {matmul(x, w1), gain}, KernelResult{.shape = {20, 40}, .batch = 0});
    Tensor h = custom(mish, {n, b}, KernelResult{.shape = {20, 40}, .batch = 0});
    return {{"loss", mean(square(matmul(h, w2) - y), {0, 1})}};
  });
  ASSERT_TRUE(traced) << traced.error().str();
  expectSameTraining(print(**traced), normTwin());
}

}  // namespace
}  // namespace tg::test
