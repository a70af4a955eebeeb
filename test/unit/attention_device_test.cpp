// SPDX-License-Identifier: Apache-2.0
// mixed-precision{precision=f32x3} on a device, whose compiler may simplify the arithmetic of halves as
// no interpreter does. A device without matrix units computes such an attention in f32.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "ir/parser.h"
#include "passes/pass.h"
#include "test/unit/attention_formula.h"
#include "test/unit/sweep_runs.h"

namespace tg::test {
namespace {

TEST(AttentionOnADevice, ErrorsOfHalvesAreOfTheSizeOfThoseOfF32) {
  Gpu gpu;
  ASSERT_TRUE(gpu.device());
  const AttentionCase c{2, 256, 256, 64, 64, DType::f32, true};
  const Arrays in = inputs(c);
  const AttentionFormula want = attentionFormula(c, in);
  auto computed = [&](const std::string& pipeline) {
    auto module = parse(attentionText(c), "attention_device_test.tgir");
    EXPECT_TRUE(module) << module.error().str();
    auto passes = PassManager::parse(pipeline);
    EXPECT_TRUE(passes) << passes.error().str();
    auto ran = passes->run(*module);
    EXPECT_TRUE(ran) << ran.error().str();
    return gpu.run(*stagesOf(**module, gpu.device()->info().target).spirv, {"f"}, {in}).at(0);
  };
  const Results halves = computed("mixed-precision{precision=f32x3,func=f}"),
                whole = computed("canonicalize");
  for (const auto& [name, value] : want.value) {
    const RowErrors own = errorsOf(halves.at(name).data, value, want.size.at(name)),
                    other = errorsOf(whole.at(name).data, value, want.size.at(name));
    EXPECT_LE(own.mean, 2 * other.mean) << name;
    EXPECT_LE(own.largest, 4 * other.largest) << name;
  }
}

}  // namespace
}  // namespace tg::test
