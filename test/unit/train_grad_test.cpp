// SPDX-License-Identifier: Apache-2.0
// The whole @train of the example models: gradients against central differences, training steps on Vulkan
// against the interpreter, and Adam's rate against f64.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <random>

#include "docs/examples/gpt_gen.h"
#include "ir/parser.h"
#include "runtime/compile.h"
#include "runtime/executor.h"
#include "runtime/interp/tolerance.h"
#include "runtime/interp_runner.h"
#include "test/unit/run_passes.h"
#include "test/unit/sweep_runs.h"

namespace tg::test {
namespace {

std::unique_ptr<Module> model(const std::string& name) {
  if (name == "sin") {
    auto module = parseFile(TG_SOURCE_DIR "/docs/examples/sin.tgir");
    EXPECT_TRUE(module) << module.error().str();
    return std::move(*module);
  }
  auto module = makeGpt({.vocab = 11,
                         .block = 8,
                         .layers = 1,
                         .heads = 2,
                         .width = 8,
                         .batch = 2,
                         .activation = name == "gpt_gelu" ? "gelu" : "relu",
                         .mixing = name == "gpt_attention" ? "attention" : "softmax",
                         .trainPipeline = ""});
  EXPECT_TRUE(module) << module.error().str();
  return std::move(*module);
}

std::unique_ptr<Module> passed(std::unique_ptr<Module> module, const std::string& pipeline) {
  auto done = runPasses(std::move(module), pipeline);
  if (done) return std::move(done->module);
  ADD_FAILURE() << done.error().str();
  return nullptr;
}

/// f32 values in [lo, hi] for floats, ids below 11 for integers.
NdArray drawn(const Type& type, std::mt19937& random, double lo, double hi) {
  NdArray array = NdArray::zeros(type);
  for (double& value : array.data)
    value = type.dtype == DType::i32 ? static_cast<double>(random() % 11)
                                     : roundTo(DType::f32, lo + (hi - lo) * (random() + 0.5) / 4294967296.0);
  return array;
}

Arrays drawnParams(const Module& module, std::mt19937& random) {
  Arrays out;
  for (const Item* item : module.all(ItemKind::param))
    out.emplace(item->name, drawn(item->type, random, -0.4, 0.4));
  return out;
}

Arrays drawnInputs(const Module& module, std::mt19937& random) {
  Arrays out;
  for (const auto& arg : module.func("train")->body.args) {
    const Attr* host = find(arg->attrs, "host");
    out.emplace(arg->name,
                host ? NdArray::scalar(roundTo(DType::f32, 0.01)) : drawn(arg->type, random, -2, 2));
  }
  return out;
}

class Train : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Models, Train, ::testing::Values("sin", "gpt_relu", "gpt_gelu", "gpt_attention"),
                         [](const auto& info) { return info.param; });

/// The loss of @train in f64 with the params moved by `step` along `along`.
double lossAt(const Module& module, const Arrays& inputs, Arrays params, const Arrays& along, double step) {
  for (auto& [name, direction] : along)
    for (size_t i = 0; i < direction.data.size(); ++i) params.at(name).data[i] += step * direction.data[i];
  return interpret(module, "train", inputs, params).at("loss").data[0];
}

/// Fourth order in the step, which is so small that hardly a unit of a relu changes sides within it.
double slope(const Module& module, const Arrays& inputs, const Arrays& params, const Arrays& along) {
  constexpr double kStep = 1e-5;
  auto at = [&](double steps) { return lossAt(module, inputs, params, along, steps * kStep); };
  return (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * kStep);
}

TEST_P(Train, GradientsAreTheSlopesOfTheLoss) {
  std::mt19937 random(5);
  auto forward = model(GetParam()), backward = passed(model(GetParam()), "append-grad");
  ASSERT_TRUE(forward && backward);
  const Arrays params = drawnParams(*forward, random), inputs = drawnInputs(*forward, random);
  auto interpreter = Interpreter::create(*backward);
  ASSERT_TRUE(interpreter);
  for (const auto& [name, value] : params) ASSERT_TRUE(interpreter->setStorage(name, value));
  auto run = interpreter->run("train", inputs);
  ASSERT_TRUE(run) << run.error().str();
  ASSERT_EQ(run->paramGrads.size(), params.size());
  auto expectSlope = [&](const Arrays& along, const std::string& what) {
    double product = 0, scale = 1e-3;
    for (const auto& [name, direction] : along)
      for (size_t i = 0; i < direction.data.size(); ++i) {
        const double term = direction.data[i] * run->paramGrads.at(name).data[i];
        product += term, scale += std::fabs(term);
      }
    const double expected = slope(*forward, inputs, params, along);
    EXPECT_NEAR(product, expected, 2e-6 * scale) << what;
    return product;
  };
  Arrays all;
  double largest = 0;
  for (const auto& [name, value] : params) {
    Arrays one = {{name, drawn(value.type, random, -1, 1)}};
    largest = std::max(largest, std::fabs(expectSlope(one, "along @" + name)));
    all.insert(one.begin(), one.end());
    Arrays single = {{name, NdArray::zeros(value.type)}};
    const size_t element = random() % value.data.size();
    single.at(name).data[element] = 1;
    expectSlope(single, fmt::format("@{} element {}", name, element));
  }
  expectSlope(all, "along all of them");
  EXPECT_GT(largest, 1e-3) << "the model is flat here, so that nothing was checked";
}

/// What three steps leave behind: losses, then every param and state.
struct Trained {
  std::vector<double> losses;
  Arrays values;
};

template <class RunnerType>
Trained train(RunnerType& runner, const Module& module, const Arrays& params,
              const std::vector<Arrays>& steps) {
  Trained out;
  for (const auto& [name, value] : params) EXPECT_TRUE(runner.setStorage(name, toHostArray(value)));
  for (const Arrays& step : steps) {
    Inputs inputs;
    for (const auto& [name, value] : step) inputs.emplace(name, toHostArray(value));
    auto run = runner.run("train", inputs, false);
    EXPECT_TRUE(run) << (run ? "" : run.error().str());
    if (run) out.losses.push_back(run->result("loss")->at(0));
  }
  for (ItemKind kind : {ItemKind::param, ItemKind::state})
    for (const Item* item : module.all(kind)) {
      auto value = runner.storage(item->name);
      EXPECT_TRUE(value);
      if (value) out.values.emplace(item->name, toNdArray(*value));
    }
  return out;
}

/// In f64 or rounded, without leaving the interpreter's arrays between steps.
Trained trainHost(const Module& module, InterpMode mode, const Arrays& params,
                  const std::vector<Arrays>& steps) {
  Trained out;
  InterpOptions options;
  options.mode = mode;
  auto interpreter = Interpreter::create(module, options);
  EXPECT_TRUE(interpreter);
  for (const auto& [name, value] : params) EXPECT_TRUE(interpreter->setStorage(name, value));
  for (const Arrays& step : steps) {
    auto run = interpreter->run("train", step);
    EXPECT_TRUE(run) << (run ? "" : run.error().str());
    if (run) out.losses.push_back(run->result("loss")->data[0]);
  }
  for (ItemKind kind : {ItemKind::param, ItemKind::state})
    for (const Item* item : module.all(kind))
      out.values.emplace(item->name, *interpreter->storage(item->name));
  return out;
}

TEST_P(Train, ThreeStepsOnVulkanAreThoseOfTheInterpreter) {
  // The gradient of a bias of keys is 0 but for rounding, which a smaller eps would make steps of.
  for (const char* adam : {"append-adam{eps=1e-6}", "append-adam{eps=1e-6,weight-decay=0.1,clip-norm=0.5}"})
    for (const char* name : {"lavapipe", "vulkan-min"}) {
      SCOPED_TRACE(fmt::format("{} for {}", adam, name));
      std::mt19937 random(6);
      auto tensor = passed(model(GetParam()), fmt::format("append-grad,{}", adam));
      ASSERT_TRUE(tensor);
      const Arrays params = drawnParams(*tensor, random);
      const std::vector<Arrays> steps = {drawnInputs(*tensor, random), drawnInputs(*tensor, random),
                                         drawnInputs(*tensor, random)};
      const Trained wide = trainHost(*tensor, InterpMode::wide, params, steps),
                    exact = trainHost(*tensor, InterpMode::exact, params, steps);
      Target target = *targetByName(name);
      target.streamScores = 1;  // the model is tiny; no kernel of an attention stores its scores
      auto finished = compile(clone(*tensor), target);
      ASSERT_TRUE(finished) << finished.error().str();
      Trained device[2];
      for (Trained& run : device) {
        Gpu gpu;
        auto executor = Executor::create(*finished->module, gpu.device());
        ASSERT_TRUE(executor) << executor.error().str();
        run = train(**executor, *finished->module, params, steps);
      }
      EXPECT_EQ(device[0].losses, device[1].losses) << "two runs differ";
      ASSERT_EQ(device[0].values.size(), wide.values.size());
      for (const auto& [param, value] : wide.values) {
        std::string why;
        EXPECT_EQ(device[0].values.at(param).data, device[1].values.at(param).data)
            << "two runs differ in @" << param;
        EXPECT_TRUE(wholeFunctionClose(device[0].values.at(param), value, exact.values.at(param),
                                       kWholeFunctionFloor, &why))
            << "@" << param << ": " << why;
      }
    }
}

/// What a step computes again it computes to the same bits: parameters and moments are those of a step that
/// keeps everything, in less memory. Parameters are so small that an alignment of 256 would decide how much memory that is.
TEST(Recompute, ChangesMemoryAndNothingElse) {
  auto module = makeGpt({.vocab = 11,
                         .block = 8,
                         .layers = 2,
                         .heads = 2,
                         .width = 8,
                         .batch = 16,
                         .activation = "gelu",
                         .trainPipeline = ""});
  ASSERT_TRUE(module);
  auto tensor = passed(std::move(*module), "append-grad,append-adam");
  ASSERT_TRUE(tensor);
  std::mt19937 random(7);
  const Arrays params = drawnParams(*tensor, random);
  const std::vector<Arrays> steps = {drawnInputs(*tensor, random), drawnInputs(*tensor, random)};
  for (const char* name : {"lavapipe", "gpu"}) {
    SCOPED_TRACE(name);
    Target target = *targetByName(name);
    target.alignment = 16;
    Trained runs[2];
    int64_t arena[2];
    for (int again : {0, 1}) {
      auto spirv = passed(clone(*tensor), fmt::format("fuse{{target={} recompute={}}},plan,spirv-emit",
                                                      Attr::string(targetOption(target)).str(), again));
      ASSERT_TRUE(spirv);
      arena[again] = find(spirv->attrs, "plan")->find("arena")->integer;
      Gpu gpu;
      auto executor = Executor::create(*spirv, gpu.device());
      ASSERT_TRUE(executor) << executor.error().str();
      runs[again] = train(**executor, *spirv, params, steps);
    }
    EXPECT_LT(arena[1], arena[0] * 9 / 10);
    EXPECT_EQ(runs[0].losses, runs[1].losses);
    for (const auto& [param, value] : runs[0].values)
      EXPECT_EQ(value.data, runs[1].values.at(param).data) << "@" << param;
  }
}

/// How many f32 apart a value is from what f64 gives.
double ulps(double got, double expected) {
  const double unit = std::ldexp(1.0, std::ilogb(expected) - 23);
  return std::fabs(got - expected) / unit;
}

// lr·√(1-β₂ᵗ)/(1-β₁ᵗ), where 1 - βᵗ formed naively loses all digits for small t.
TEST(AdamRate, IsWithinTwoUlpsForEveryStep) {
  std::vector<double> times;
  for (int t = 1; t <= 2000; ++t) times.push_back(t);
  for (int t = 2001; t <= 100000; t += 97) times.push_back(t);
  const std::string type = fmt::format("tensor<{}xf32>", times.size());
  auto tensor = parse(fmt::format(R"(module @rate {{
  func @f(%t: {0}, %lr: tensor<f32>) -> (rate: {0}) {{
    %second = tg.one_minus_pow %t {{base = 0.999}} : {0}
    %first = tg.one_minus_pow %t {{base = 0.9}} : {0}
    %root = tg.sqrt %second : {0}
    %scaled = tg.mul %lr, %root : {0}
    %rate = tg.div %scaled, %first : {0}
    return %rate : {0}
  }}
}}
)",
                                  type),
                      "rate.tgir");
  ASSERT_TRUE(tensor) << tensor.error().str();
  const double lr = roundTo(DType::f32, 1e-3);
  const Arrays inputs = {{"t", NdArray((*tensor)->func("f")->body.args[0]->type, times)},
                         {"lr", NdArray::scalar(lr)}};
  Gpu gpu;
  for (const char* name : {"lavapipe", "gpu"}) {
    Stages stages = stagesOf(**tensor, *targetByName(name));
    ASSERT_TRUE(stages.spirv);
    std::vector<Results> device = gpu.run(*stages.spirv, {"f"}, {inputs});
    ASSERT_EQ(device.size(), 1u);
    Results kernel = interpret(*stages.spirv, "f", inputs);
    for (const auto& [where, got] : {std::pair{"vulkan", &device[0]}, std::pair{"kernel", &kernel}}) {
      double worst = 0, at = 0;
      for (size_t i = 0; i < times.size(); ++i) {
        const double t = times[i];
        const double expected =
            lr * std::sqrt(-std::expm1(t * std::log(0.999))) / -std::expm1(t * std::log(0.9));
        const double off = ulps(got->at("rate").data[i], expected);
        if (off > worst) worst = off, at = t;
      }
      std::cout << fmt::format("  {} {}: {:.2f} ulps at t = {}\n", name, where, worst, at);
      EXPECT_LE(worst, 2) << name << " " << where << " at t = " << at;
    }
  }
}

}  // namespace
}  // namespace tg::test
