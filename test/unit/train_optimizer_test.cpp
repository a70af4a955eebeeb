// SPDX-License-Identifier: Apache-2.0
// Each optimizer on Vulkan, with accumulation and without, against the interpreter.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "ir/parser.h"
#include "runtime/compile.h"
#include "runtime/executor.h"
#include "runtime/interp/tolerance.h"
#include "runtime/interp_runner.h"
#include "test/unit/run_passes.h"
#include "test/unit/sweep_runs.h"

namespace tg::test {
namespace {

// Odd sizes, so that groups have padding; @w2 is bound to a matmul, @b1 is summed over rows.
constexpr const char* kModel = R"(module @m {
  param @w1 : tensor<3x7xf32>
  param @b1 : tensor<7xf32> {init = zeros}
  param @w2 : tensor<7x1xf32>
  param @s : tensor<f32> {init = ones, decay = true}
  func @train(%x: tensor<5x3xf32> {batch = 0}, %y: tensor<5x1xf32> {batch = 0}) -> (loss: tensor<f32>) {
    %w1 = tg.param @w1 : tensor<3x7xf32>
    %b1 = tg.param @b1 : tensor<7xf32>
    %w2 = tg.param @w2 : tensor<7x1xf32>
    %s = tg.param @s : tensor<f32>
    %z = tg.matmul %x, %w1 : tensor<5x7xf32>
    %a = tg.add %z, %b1 : tensor<5x7xf32>
    %h = tg.tanh %a : tensor<5x7xf32>
    %o = tg.matmul %h, %w2 : tensor<5x1xf32>
    %p = tg.mul %o, %s : tensor<5x1xf32>
    %d = tg.sub %p, %y : tensor<5x1xf32>
    %q = tg.square %d : tensor<5x1xf32>
    %loss = tg.mean %q {axes = [0, 1]} : tensor<f32>
    return %loss : tensor<f32>
  }
}
)";

constexpr const char* kOptimizers[] = {
    "append-adam",
    "append-adam{kind=adamw,weight-decay=0.1,clip-norm=0.5}",
    "append-sgd",
    "append-sgd{weight-decay=0.1,clip-norm=0.5}",
    "append-sgd{momentum=0.9,no-decay=w1,weight-decay=0.1}",
    "append-sgd{momentum=0.9,nesterov,normalize-grads,clip-norm=0.5}",
    "append-adam{normalize-grads=w*}",
    "append-adam{corrected-eps,eps=0.01,weight-decay=0.1}",
};

NdArray drawn(const Type& type, std::mt19937& random) {
  NdArray array = NdArray::zeros(type);
  for (double& value : array.data) value = roundTo(DType::f32, (random() + 0.5) / 2147483648.0 - 1);
  return array;
}

/// One call: the function and what it is given.
struct Call {
  std::string function;
  Arrays inputs;
};

/// Steps of `calls` calls of @train each, then @apply if there is one.
std::vector<Call> callsOf(const Module& module, int steps, int calls, std::mt19937& random) {
  std::vector<Call> out;
  auto add = [&](const std::string& function) {
    const Item* func = module.func(function);
    if (!func) return;
    Call call{function, {}};
    for (const auto& arg : func->body.args)
      call.inputs.emplace(arg->name, find(arg->attrs, "host") ? NdArray::scalar(roundTo(DType::f32, 0.05))
                                                              : drawn(arg->type, random));
    out.push_back(std::move(call));
  };
  for (int step = 0; step < steps; ++step) {
    for (int i = 0; i < calls; ++i) add("train");
    add("apply");
  }
  return out;
}

/// Every param and state after the calls.
Arrays after(Runner& runner, const Module& module, const Arrays& params, const std::vector<Call>& calls) {
  for (const auto& [name, value] : params) EXPECT_TRUE(runner.setStorage(name, toHostArray(value)));
  for (const Call& call : calls) {
    Inputs inputs;
    for (const auto& [name, value] : call.inputs) inputs.emplace(name, toHostArray(value));
    auto run = runner.run(call.function, inputs, false);
    EXPECT_TRUE(run) << (run ? "" : run.error().str());
  }
  Arrays out;
  for (ItemKind kind : {ItemKind::param, ItemKind::state})
    for (const Item* item : module.all(kind)) {
      auto value = runner.storage(item->name);
      EXPECT_TRUE(value);
      if (value) out.emplace(item->name, toNdArray(*value));
    }
  return out;
}

Arrays afterHost(const Module& module, InterpMode mode, const Arrays& params,
                 const std::vector<Call>& calls) {
  InterpOptions options;
  options.mode = mode;
  auto interpreter = Interpreter::create(module, options);
  EXPECT_TRUE(interpreter);
  for (const auto& [name, value] : params) EXPECT_TRUE(interpreter->setStorage(name, value));
  for (const Call& call : calls) {
    auto run = interpreter->run(call.function, call.inputs);
    EXPECT_TRUE(run) << (run ? "" : run.error().str());
  }
  Arrays out;
  for (ItemKind kind : {ItemKind::param, ItemKind::state})
    for (const Item* item : module.all(kind)) out.emplace(item->name, *interpreter->storage(item->name));
  return out;
}

void comparesOn(const Gpu& gpu, const std::string& optimizer, int accumulate, const char* target) {
  SCOPED_TRACE(fmt::format("{} over {} calls for {}", optimizer, accumulate, target));
  auto parsed = parse(kModel, "model.tgir");
  ASSERT_TRUE(parsed);
  auto passed =
      runPasses(std::move(*parsed), fmt::format("append-grad{{accumulate={}}},{}", accumulate, optimizer));
  ASSERT_TRUE(passed) << passed.error().str();
  const Module& tensor = *passed->module;
  std::mt19937 random(8);
  Arrays params;
  for (const Item* item : tensor.all(ItemKind::param)) params.emplace(item->name, drawn(item->type, random));
  const std::vector<Call> calls = callsOf(tensor, 3, accumulate, random);
  const Arrays wide = afterHost(tensor, InterpMode::wide, params, calls),
               exact = afterHost(tensor, InterpMode::exact, params, calls);
  auto finished = compile(clone(tensor), *targetByName(target));
  ASSERT_TRUE(finished) << finished.error().str();
  auto executor = Executor::create(*finished->module, gpu.device());
  ASSERT_TRUE(executor) << executor.error().str();
  const Arrays device = after(**executor, *finished->module, params, calls);
  ASSERT_EQ(device.size(), wide.size());
  for (const auto& [name, value] : wide) {
    std::string why;
    EXPECT_TRUE(wholeFunctionClose(device.at(name), value, exact.at(name), kWholeFunctionFloor, &why))
        << "@" << name << ": " << why;
  }
}

TEST(TrainOptimizers, StepsOnVulkanAreThoseOfTheInterpreter) {
  Gpu gpu;
  for (const char* optimizer : kOptimizers)
    for (int accumulate : {1, 2}) comparesOn(gpu, optimizer, accumulate, "lavapipe");
  // Few bindings and no texel reads: numbers share a tensor.
  for (const char* optimizer : {kOptimizers[1], kOptimizers[5], kOptimizers[7]})
    comparesOn(gpu, optimizer, 2, "vulkan-min");
}

/// Another batch size is another module: the same parameters learn from it.
TEST(TrainOptimizers, ABatchOfAnotherSize) {
  Gpu gpu;
  auto parsed = parse(kModel, "model.tgir");
  ASSERT_TRUE(parsed);
  auto passed = runPasses(std::move(*parsed), "set-batch{n=9},append-grad,append-sgd");
  ASSERT_TRUE(passed) << passed.error().str();
  std::mt19937 random(4);
  Arrays params;
  for (const Item* item : passed->module->all(ItemKind::param))
    params.emplace(item->name, drawn(item->type, random));
  const std::vector<Call> calls = callsOf(*passed->module, 2, 1, random);
  EXPECT_EQ(calls[0].inputs.at("x").type.shape[0], 9);
  const Arrays wide = afterHost(*passed->module, InterpMode::wide, params, calls);
  auto finished = compile(clone(*passed->module), *targetByName("lavapipe"));
  ASSERT_TRUE(finished) << finished.error().str();
  auto executor = Executor::create(*finished->module, gpu.device());
  ASSERT_TRUE(executor) << executor.error().str();
  for (const auto& [name, value] : after(**executor, *finished->module, params, calls))
    for (size_t i = 0; i < value.data.size(); ++i)
      EXPECT_NEAR(value.data[i], wide.at(name).data[i], 1e-6) << name;
}

}  // namespace
}  // namespace tg::test
