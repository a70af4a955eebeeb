// SPDX-License-Identifier: Apache-2.0
// The schedules that are worth timing, for every region of the sweep: each is legal, and means the same.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "codegen/lower.h"
#include "codegen/schedule.h"
#include "ir/kernel/custom.h"
#include "runtime/compile.h"
#include "test/unit/run_passes.h"
#include "test/unit/sweep_cases.h"
#include "test/unit/sweep_oracle.h"
#include "test/unit/sweep_runs.h"

namespace tg::test {
namespace {

std::unique_ptr<Module> fusedCases(const std::vector<SweepCase>& cases, size_t first, size_t count,
                                   const Target& target) {
  auto fused = runPasses(moduleOf(cases, first, count), "fuse{target=" + targetOption(target) + "}");
  EXPECT_TRUE(fused) << (fused ? "" : fused.error().str());
  return fused ? std::move(fused->module) : nullptr;
}

/// Lowers every region of the cases by each of its schedules; the kinds of those beside the chosen ones.
std::set<std::string> lowerAll(const std::vector<SweepCase>& cases, const Target& target) {
  std::set<std::string> kinds;
  for (size_t first = 0; first < cases.size(); first += kModuleCases) {
    auto module = fusedCases(cases, first, std::min(kModuleCases, cases.size() - first), target);
    if (!module) return kinds;
    for (Op* op : module->func("f")->body.ops) {
      if (op->code != Opcode::fused || customOf(*op)) continue;
      const std::vector<Schedule> schedules = scheduleCandidates(*op, target);
      EXPECT_GE(schedules.size(), 1u);
      EXPECT_LE(schedules.size(), 6u);
      Schedule own = scheduleOf(*op);
      Schedule chosen = schedules.front();
      // What a kernel may leave out, and in which order it goes then, depends on others, which candidates are timed without.
      if (auto* shared = std::get_if<SharedMatmulSchedule>(&own)) {
        if (shared->lower) std::get<SharedMatmulSchedule>(chosen).band = 1;
        shared->lower = shared->hidden = shared->zeros = false, shared->unread = 0;
      }
      EXPECT_EQ(chosen, own) << "the chosen one comes first";
      const std::vector<bool> texel(op->operands.size(), target.reads == "texel");
      for (size_t i = 0; i < schedules.size(); ++i) {
        EXPECT_EQ(std::count(schedules.begin(), schedules.end(), schedules[i]), 1);
        if (i) kinds.insert(std::string(scheduleKind(schedules[i])));
        op->setAttr("schedule", scheduleAttr(schedules[i]));
        auto lowered = lowerRegion(*op, target, texel);
        EXPECT_TRUE(lowered) << op->result()->name << ", " << scheduleAttr(schedules[i]).str() << ": "
                             << (lowered ? "" : lowered.error().str());
      }
    }
  }
  return kinds;
}

class Candidates : public ::testing::TestWithParam<std::string> {};
std::string nameOf(std::string target) {
  std::replace(target.begin(), target.end(), '-', '_');
  return target;
}

TEST_P(Candidates, AreLegalForEveryRegion) {
  Target own = shippedTarget(GetParam());
  const std::set<std::string> kinds = lowerAll(sweepCases(), own);
  for (const char* kind : {"map", "row", "matmul"}) EXPECT_TRUE(kinds.contains(kind)) << kind;
  own.streamScores = 1;
  EXPECT_TRUE(lowerAll(attentionCases(), own).contains("attention"));
}

TEST(CandidatesOfMatrixUnits, AreLegal) {
  const std::set<std::string> kinds = lowerAll(coopmatCases(), shippedTarget("gpu-coopmat"));
  for (const char* kind : {"coopmat", "matmul"}) EXPECT_TRUE(kinds.contains(kind)) << kind;
}

/// Every region of the sweep by one of its other schedules, a different one in each turn.
void takeOthers(Module& module, const Target& target, size_t turn) {
  size_t number = 0;
  for (Op* op : module.func("f")->body.ops) {
    if (op->code != Opcode::fused) continue;
    const std::vector<Schedule> schedules = scheduleCandidates(*op, target);
    if (schedules.size() > 1)
      op->setAttr("schedule", scheduleAttr(schedules[1 + (number++ + turn) % (schedules.size() - 1)]));
  }
}

/// Each target in parts of several modules; one in kTaken, as all are lowered above, and compiling takes
/// long.
constexpr int kCandidateParts = 3;
constexpr size_t kTaken = 3;
class CandidatesSweep : public ::testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(CandidatesSweep, MeanTheSame) {
  const auto& [name, part] = GetParam();
  const Target own = shippedTarget(name);
  const std::vector<SweepCase> cases = sweepCases();
  Gpu gpu;
  ASSERT_TRUE(gpu.device());
  for (size_t first = part * kModuleCases; first < cases.size();
       first += kTaken * kCandidateParts * kModuleCases) {
    const size_t turn = first / kModuleCases;
    const size_t count = std::min(kModuleCases, cases.size() - first);
    const Arrays inputs = inputsOf(cases, first, count);
    const auto expected = expectedOf(*moduleOf(cases, first, count), inputs);
    auto module = fusedCases(cases, first, count, own);
    ASSERT_TRUE(module);
    takeOthers(*module, own, turn);
    auto done = runPasses(std::move(module), "plan,spirv-emit");
    ASSERT_TRUE(done) << done.error().str();
    InterpOptions options;
    options.kernel = laneOrder(static_cast<int>(turn));
    const Results lanes = interpret(*done->module, "f", inputs, {}, options);
    const std::vector<Results> device = gpu.run(*done->module, {"f"}, {inputs});
    ASSERT_EQ(device.size(), 1u);
    for (const Results* got : {&lanes, &device[0]})
      for (const auto& [name, want] : expected) {
        const NdArray& value = got->at(name);
        ASSERT_EQ(value.data.size(), want.value.data.size());
        const size_t number = std::strtoul(name.c_str() + 1, nullptr, 10);
        for (size_t i = 0; i < value.data.size(); ++i) {
          const double a = value.data[i], b = want.value.data[i];
          if (a == b || (std::isnan(a) && std::isnan(b))) continue;
          ASSERT_LE(std::fabs(a - b), want.tolerance.data[i])
              << cases[number].name << (got == &lanes ? ", kernel, " : ", vulkan, ") << "element " << i
              << ": " << a << " instead of " << b;
        }
      }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Candidates, ::testing::Values("lavapipe", "gpu", "vulkan-min"),
                         [](const auto& info) { return nameOf(info.param); });
INSTANTIATE_TEST_SUITE_P(Targets, CandidatesSweep,
                         ::testing::Combine(::testing::Values("lavapipe", "gpu"),
                                            ::testing::Range(0, kCandidateParts)),
                         [](const auto& info) {
                           return nameOf(std::get<0>(info.param)) + "_" +
                                  std::to_string(std::get<1>(info.param));
                         });

}  // namespace
}  // namespace tg::test
