// SPDX-License-Identifier: Apache-2.0
// Random graphs through fuse, plan and codegen: at every stage and on Vulkan what they mean as tensors.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ir/parser.h"
#include "ir/verify.h"
#include "runtime/interp/tolerance.h"
#include "test/unit/sweep_graphs.h"
#include "test/unit/sweep_runs.h"

namespace tg::test {
namespace {

constexpr uint32_t kGraphs = 40;  ///< functions of one module, which share params and the arena

struct Oracle {
  Results wide, exact;
};

/// Reports the graph once, with its first difference.
void expectClose(const Module& module, const std::string& function, const std::string& stage,
                 const Oracle& oracle, const Results& got) {
  ASSERT_EQ(got.size(), oracle.wide.size()) << stage << " @" << function;
  for (const auto& [name, wide] : oracle.wide) {
    std::string why;
    ASSERT_TRUE(got.contains(name)) << stage << " @" << function << " " << name;
    ASSERT_TRUE(wholeFunctionClose(got.at(name), wide, oracle.exact.at(name), kWholeFunctionFloor, &why))
        << stage << " @" << function << " result " << name << ": " << why << "\n"
        << print(*module.func(function));
  }
}

class FusionSweep : public ::testing::TestWithParam<int> {};
TEST_P(FusionSweep, MeansTheSame) {
  static constexpr const char* names[] = {"lavapipe", "gpu", "vulkan-min"};
  const Target target = *targetByName(names[GetParam() % 3]);
  Module tensor;
  tensor.name = "graphs";
  addGraphParams(tensor);
  std::vector<std::string> functions;
  std::vector<Arrays> inputs;
  for (uint32_t i = 0; i < kGraphs; ++i) {
    const uint32_t seed = static_cast<uint32_t>(GetParam()) * kGraphs + i;
    addGraph(tensor, seed);
    functions.push_back(fmt::format("f{}", seed));
    inputs.push_back(graphInputs(tensor, functions.back(), seed));
  }
  auto valid = verify(tensor);
  ASSERT_TRUE(valid) << valid.error().str();
  const Arrays params = graphInputs(tensor, "", 99);
  Stages stages = stagesOf(tensor, target);
  ASSERT_TRUE(stages.fused && stages.planned && stages.spirv);
  Gpu gpu;
  std::vector<Results> device = gpu.run(*stages.spirv, functions, inputs, params);
  ASSERT_EQ(device.size(), functions.size());
  InterpOptions rounded, kernels;
  rounded.mode = InterpMode::exact;
  kernels.kernel = laneOrder(GetParam());
  for (size_t i = 0; i < functions.size(); ++i) {
    const std::string& f = functions[i];
    const Oracle oracle = {interpret(tensor, f, inputs[i], params),
                           interpret(tensor, f, inputs[i], params, rounded)};
    expectClose(tensor, f, "fused", oracle, interpret(*stages.fused, f, inputs[i], params));
    expectClose(tensor, f, "planned", oracle, interpret(*stages.planned, f, inputs[i], params));
    expectClose(tensor, f, "kernel", oracle, interpret(*stages.spirv, f, inputs[i], params, kernels));
    expectClose(tensor, f, "vulkan", oracle, device[i]);
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, FusionSweep, ::testing::Range(0, 6));

}  // namespace
}  // namespace tg::test
