// SPDX-License-Identifier: Apache-2.0
#include "test/unit/sweep_runs.h"

#include <gtest/gtest.h>

#include <initializer_list>

#include "ir/parser.h"
#include "ir/verify.h"
#include "runtime/compile.h"
#include "runtime/executor.h"
#include "runtime/interp/tolerance.h"
#include "runtime/interp_runner.h"
#include "test/unit/run_passes.h"

namespace tg::test {

static std::unique_ptr<Module> passed(const Module* module, const std::string& pipeline) {
  if (!module) return nullptr;
  auto done = runPasses(clone(*module), pipeline);
  if (done) return std::move(done->module);
  ADD_FAILURE() << done.error().str();
  return nullptr;
}

Stages stagesOf(const Module& tensor, const Target& target) {
  Stages stages;
  stages.fused = passed(&tensor, "fuse{target=" + targetOption(target) + "}");
  stages.planned = passed(stages.fused.get(), "plan");
  stages.spirv = passed(stages.planned.get(), "spirv-emit");
  return stages;
}

Target shippedTarget(const std::string& name) {
  auto found = targetByName(name);
  EXPECT_TRUE(found);
  return *found;
}

Results interpret(const Module& module, const std::string& function, const Arrays& inputs,
                  const Arrays& storage, const InterpOptions& options) {
  auto interp = Interpreter::create(module, options);
  if (!interp) {
    ADD_FAILURE() << interp.error().str();
    return {};
  }
  for (const auto& [name, value] : storage) {
    auto set = interp->setStorage(name, value);
    EXPECT_TRUE(set) << (set ? "" : set.error().str());
  }
  auto run = interp->run(function, inputs);
  if (!run) {
    ADD_FAILURE() << run.error().str();
    return {};
  }
  for (const std::string& finding : run->counters.findings) ADD_FAILURE() << finding;
  Results out(run->results.begin(), run->results.end());
  for (auto& [name, value] : run->captures) out.emplace(name, std::move(value));
  return out;
}

Gpu::Gpu() {
  vulkan::DeviceOptions options;
  options.validation = true;
  auto opened = vulkan::Device::open(options);
  if (!opened) {
    ADD_FAILURE() << opened.error().str();
    return;
  }
  device_ = *opened;
  log_ = device_->validationLog();
}

Gpu::~Gpu() {
  device_.reset();
  if (!log_) return;
  for (const std::string& message : log_->messages()) ADD_FAILURE() << message;
  EXPECT_EQ(vulkan::liveHandles(), 0);
}

std::vector<Results> Gpu::run(const Module& module, const std::vector<std::string>& functions,
                              const std::vector<Arrays>& inputs, const Arrays& storage) {
  std::vector<Results> out;
  auto executor = Executor::create(module, device_);
  if (!executor) {
    ADD_FAILURE() << executor.error().str();
    return out;
  }
  for (const auto& [name, value] : storage) {
    auto set = (*executor)->setStorage(name, toHostArray(value));
    EXPECT_TRUE(set) << (set ? "" : set.error().str());
  }
  for (size_t i = 0; i < functions.size(); ++i) {
    tg::Inputs given;
    for (const auto& [name, value] : inputs[i]) given.emplace(name, toHostArray(value));
    auto run = (*executor)->run(functions[i], given, true);
    if (!run) {
      ADD_FAILURE() << run.error().str();
      return out;
    }
    Results& results = out.emplace_back();
    for (const NamedArrays* arrays : {&run->results, &run->captures})
      for (const auto& [name, value] : *arrays) results.emplace(name, toNdArray(value));
  }
  return out;
}

void expectMeaning(const Module& tensor, const Module& final, const std::vector<std::string>& functions,
                   const std::vector<Arrays>& inputs) {
  Gpu gpu;
  const std::vector<Results> device = gpu.run(final, functions, inputs);
  ASSERT_EQ(device.size(), functions.size());
  InterpOptions rounded, kernels;
  rounded.mode = InterpMode::exact;
  for (size_t i = 0; i < functions.size(); ++i) {
    kernels.kernel = laneOrder(static_cast<int>(i));
    const std::string& f = functions[i];
    const Results wide = interpret(tensor, f, inputs[i]),
                  exact = interpret(tensor, f, inputs[i], {}, rounded);
    const Results kernel = interpret(final, f, inputs[i], {}, kernels);
    for (const auto& [name, value] : wide)
      for (const Results* got : std::initializer_list<const Results*>{&kernel, &device[i]}) {
        std::string why;
        EXPECT_TRUE(wholeFunctionClose(got->at(name), value, exact.at(name), kWholeFunctionFloor, &why))
            << (got == &kernel ? "kernel: " : "vulkan: ") << name << ": " << why << "\n"
            << print(*tensor.func(f));
      }
  }
}

KernelRunOptions laneOrder(int number) {
  static constexpr LaneOrder orders[] = {LaneOrder::wholeLane, LaneOrder::roundRobin, LaneOrder::lockstep};
  return {orders[number % 3], number / 3 % 2 == 1, true};
}

}  // namespace tg::test
