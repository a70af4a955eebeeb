// SPDX-License-Identifier: Apache-2.0
// Every op of the table on every executor, against the f64 oracle: the interpreter at each stage, kernels
// lane by lane, Vulkan under the validation layer, for each shipped target.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <set>

#include "ir/parser.h"
#include "ir/rows.h"
#include "ir/schedule.h"
#include "ir/verify.h"
#include "test/unit/sweep_cases.h"
#include "test/unit/sweep_oracle.h"
#include "test/unit/sweep_runs.h"

namespace tg::test {
namespace {

const char* nameOf(ToleranceClass kind) {
  static constexpr const char* names[] = {"exact", "elementwise", "reduction", "map", "row"};
  return names[static_cast<int>(kind)];
}

/// The largest error in units of the tolerance, by executor and class; 1 is the limit.
class Worst {
 public:
  void take(const std::string& stage, ToleranceClass kind, double ratio, const std::string& where) {
    auto& [worst, at] = seen_[stage][nameOf(kind)];
    if (ratio > worst || at.empty()) worst = ratio, at = where;
  }
  ~Worst() {
    for (const auto& [stage, kinds] : seen_)
      for (const auto& [kind, worst] : kinds)
        if (worst.first > 0)
          std::cout << fmt::format("  {:<10} {:<12} {:.3f} of the tolerance at {}\n", stage, kind,
                                   worst.first, worst.second);
  }

 private:
  std::map<std::string, std::map<std::string, std::pair<double, std::string>>> seen_;
};

/// How far apart two values are; equal infinities and NaNs agree.
double distance(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  return std::isfinite(a) && std::isfinite(b) ? std::fabs(a - b) : INFINITY;
}

class Checker {
 public:
  Checker(const std::vector<SweepCase>& cases, std::string target)
      : cases_(cases), target_(std::move(target)) {}

  void check(const std::string& stage, const std::map<std::string, Expected>& expected, const Results& got) {
    EXPECT_EQ(got.size(), expected.size()) << stage;
    for (const auto& [name, want] : expected) {
      auto own = got.find(name);
      if (own == got.end()) {
        ADD_FAILURE() << stage << " has no " << describe(name);
        continue;
      }
      checkOne(stage, name, want, own->second);
    }
  }

 private:
  std::string describe(const std::string& name) const {
    const size_t number = std::strtoul(name.c_str() + 1, nullptr, 10);
    return fmt::format("{} (case {}, result {})", cases_[number].name, number,
                       name.substr(name.find('_') + 1));
  }
  void checkOne(const std::string& stage, const std::string& name, const Expected& want, const NdArray& got) {
    ASSERT_EQ(got.type.str(), want.value.type.str()) << describe(name);
    double worst = 0;
    size_t at = 0;
    for (size_t i = 0; i < got.data.size(); ++i) {
      const double off = distance(got.data[i], want.value.data[i]), allowed = want.tolerance.data[i];
      const double ratio = off == 0 ? 0 : allowed > 0 ? off / allowed : INFINITY;
      if (ratio > worst) worst = ratio, at = i;
    }
    worst_.take(stage, want.kind, worst, describe(name));
    EXPECT_LE(worst, 1) << fmt::format(
        "{}: target {}, {}, element {}: {:.9g} instead of {:.9g}, tolerance {:.3g}", describe(name), target_,
        stage, at, got.data[at], want.value.data[at], want.tolerance.data[at]);
  }

  const std::vector<SweepCase>& cases_;
  std::string target_;
  Worst worst_;
};

/// Runs a module everywhere.
void sweepModule(Gpu& gpu, const Module& tensor, const Arrays& inputs, const Target& target, Checker& checker,
                 int orders, size_t first) {
  auto valid = verify(tensor);
  ASSERT_TRUE(valid) << valid.error().str();
  std::map<std::string, Expected> expected = expectedOf(tensor, inputs);
  for (auto& [name, each] : expected)  // infinite where the type ends
    if (isNarrow(each.value.type.dtype))
      for (double& value : each.value.data)
        if (std::fabs(value) > info(each.value.type.dtype).largest) roundAll(each.value);
  checker.check("tensor", expected, interpret(tensor, "f", inputs));
  Stages stages = stagesOf(tensor, target);
  ASSERT_TRUE(stages.fused && stages.planned && stages.spirv);
  checker.check("fused", expected, interpret(*stages.fused, "f", inputs));
  checker.check("planned", expected, interpret(*stages.planned, "f", inputs));
  for (int order = 0; order < orders; ++order) {
    InterpOptions options;
    options.kernel = laneOrder(static_cast<int>(first / kModuleCases) + order);
    checker.check("kernel", expected, interpret(*stages.spirv, "f", inputs, {}, options));
  }
  std::vector<Results> run = gpu.run(*stages.spirv, {"f"}, {inputs});
  ASSERT_EQ(run.size(), 1u);
  checker.check("vulkan", expected, run[0]);
}

/// Runs some cases as one module everywhere.
void sweep(Gpu& gpu, const std::vector<SweepCase>& cases, size_t first, size_t count, const Target& target,
           Checker& checker, int orders) {
  sweepModule(gpu, *moduleOf(cases, first, count), inputsOf(cases, first, count), target, checker, orders,
              first);
}

/// The module with another type for each f32, or null where an op has f32 alone.
std::unique_ptr<Module> retyped(const Module& module, DType dtype) {
  std::string text = print(module);
  for (size_t at = 0; (at = text.find("f32>", at)) != std::string::npos;) text.replace(at, 3, name(dtype));
  auto parsed = parse(text, "retyped");
  if (!parsed || !verify(**parsed)) return nullptr;
  return std::move(*parsed);
}

TEST(SweepTable, EveryOpHasACase) {
  std::set<Opcode> covered;
  const std::vector<SweepCase> cases = sweepCases();
  for (size_t i = 0; i < cases.size(); ++i) {
    std::unique_ptr<Module> module = moduleOf(cases, i, 1);
    int found = 0;
    for (Op* op : module->func("f")->body.ops) found += op->code == cases[i].code;
    EXPECT_GE(found, 1) << cases[i].name << " holds no " << info(cases[i].code).name;
    covered.insert(cases[i].code);
  }
  for (int i = 0; i < kOpcodeCount; ++i) {
    const auto code = static_cast<Opcode>(i);
    EXPECT_TRUE(!needsSweep(info(code)) || covered.count(code))
        << info(code).name << " has no case in the sweep";
  }
}

/// Changes what an array holds at an index along an axis.
void changeAt(NdArray& array, int axis, int64_t index) {
  const Shape& shape = array.type.shape;
  int64_t inner = 1;
  for (int at = axis + 1; at < shape.rank(); ++at) inner *= shape[at];
  for (size_t i = 0; i < array.data.size(); ++i)
    if (static_cast<int64_t>(i) / inner % shape[axis] == index) array.data[i] += 0.625;
}

/// Along an axis that an op keeps apart, the elements of results that depend on the first operand at index 0 and those that
/// depend on any operand at index 1 are different elements.
TEST(SweepTable, OpsKeepApartTheAxesThatTheirTraitsSay) {
  const std::vector<SweepCase> cases = sweepCases();
  std::set<Opcode> tested;
  for (size_t i = 0; i < cases.size(); ++i) {
    const std::unique_ptr<Module> module = moduleOf(cases, i, 1);
    const Arrays inputs = inputsOf(cases, i, 1);
    const Results before = interpret(*module, "f", inputs);
    auto changedBy = [&](const Value& operand, int axis, int64_t index) {
      Arrays other = inputs;
      changeAt(other.at(operand.name), axis, index);
      std::set<std::pair<std::string, size_t>> changed;
      for (const auto& [name, result] : interpret(*module, "f", other))
        for (size_t at = 0; at < result.data.size(); ++at)
          if (distance(result.data[at], before.at(name).data[at]) != 0) changed.emplace(name, at);
      return changed;
    };
    for (const Op* op : module->func("f")->body.ops) {
      if (op->code != cases[i].code || op->operands.empty() || op->in(0)->def) continue;
      const Value& first = *op->in(0);
      for (int axis = 0; axis < first.type.rank(); ++axis) {
        if (!keepsApart(*op, axis) || first.type.shape[axis] < 2) continue;
        const auto changed = changedBy(first, axis, 0);
        tested.insert(op->code);
        for (int at = 0; at < op->numOperands(); ++at) {
          const Value& operand = *op->in(at);
          if (operand.def || !isFloat(operand.type.dtype) || operand.type.rank() != first.type.rank() ||
              operand.type.shape[axis] != first.type.shape[axis])
            continue;
          for (const auto& each : changedBy(operand, axis, 1))
            EXPECT_FALSE(changed.count(each))
                << cases[i].name << ": " << each.first << "[" << each.second << "], axis " << axis;
        }
      }
    }
  }
  for (int i = 0; i < kOpcodeCount; ++i) {
    const OpInfo& op = info(static_cast<Opcode>(i));
    const bool says = op.has(table::alongAxes) || op.has(table::alongRow) || op.has(table::alongMatrix) ||
                      op.has(table::alongImage);
    EXPECT_TRUE(!says || !needsSweep(op) || tested.count(static_cast<Opcode>(i)))
        << op.name << " has no case with an axis that it keeps apart";
  }
}

/// Each target in parts of several modules.
constexpr int kParts = 3;
class Sweep : public ::testing::TestWithParam<std::tuple<std::string, int>> {};
TEST_P(Sweep, MatchesTheOracle) {
  const auto& [name, part] = GetParam();
  const std::vector<SweepCase> cases = sweepCases();
  Gpu gpu;
  Checker checker(cases, name);
  for (size_t first = part * kModuleCases; first < cases.size(); first += kParts * kModuleCases)
    sweep(gpu, cases, first, std::min(kModuleCases, cases.size() - first), shippedTarget(name), checker,
          name == "gpu" ? 1 : 2);
}
INSTANTIATE_TEST_SUITE_P(Targets, Sweep,
                         ::testing::Combine(::testing::Values("lavapipe", "gpu", "vulkan-min"),
                                            ::testing::Range(0, kParts)),
                         [](const auto& info) {
                           std::string name =
                               std::get<0>(info.param) + "_" + std::to_string(std::get<1>(info.param));
                           for (char& c : name)
                             if (c == '-') c = '_';
                           return name;
                         });

/// The same of f16 and bf16, in 16 bits and two to a word; each takes a part of the cases.
class NarrowSweep : public ::testing::TestWithParam<std::tuple<DType, std::string>> {};
TEST_P(NarrowSweep, MatchesTheOracle) {
  const auto& [dtype, targetName] = GetParam();
  std::vector<SweepCase> cases, all = sweepCases();
  constexpr size_t kShares = 4;
  const size_t count = all.size(), share = 2 * (dtype == DType::bf16) + (targetName == "lavapipe");
  for (size_t i = share; i < count; i += kShares)
    if (retyped(*moduleOf(all, i, 1), dtype)) cases.push_back(std::move(all[i]));
  EXPECT_GT(cases.size(), count / kShares * 3 / 4);
  Gpu gpu;
  Checker checker(cases, fmt::format("{} of {}", targetName, name(dtype)));
  for (size_t first = 0; first < cases.size(); first += kModuleCases) {
    const size_t size = std::min(kModuleCases, cases.size() - first);
    Arrays inputs = inputsOf(cases, first, size);
    for (auto& [name, array] : inputs) {
      if (array.type.dtype == DType::f32) array.type.dtype = dtype;
      roundAll(array);
    }
    std::unique_ptr<Module> module = retyped(*moduleOf(cases, first, size), dtype);
    ASSERT_TRUE(module);
    sweepModule(gpu, *module, inputs, shippedTarget(targetName), checker, 1, first);
  }
}
INSTANTIATE_TEST_SUITE_P(Types, NarrowSweep,
                         ::testing::Values(std::tuple(DType::f16, "lavapipe"),
                                           std::tuple(DType::bf16, "lavapipe"),
                                           std::tuple(DType::f16, "vulkan-min"),
                                           std::tuple(DType::bf16, "vulkan-min")),
                         [](const auto& info) {
                           const bool stores = std::get<1>(info.param) == "lavapipe";
                           return std::string(name(std::get<0>(info.param))) + (stores ? "" : "_in_words");
                         });

/// Attention whose scores no kernel stores, at sizes where the targets as they are would store them.
class StreamedAttention : public ::testing::TestWithParam<std::string> {};
TEST_P(StreamedAttention, MatchesTheOracle) {
  Target streaming = shippedTarget(GetParam());
  streaming.streamScores = 1;
  streaming.parallel = 1;  // tiles as large as they get
  std::vector<SweepCase> cases = attentionCases();
  if (GetParam() != "lavapipe") {
    // Mesa takes long for the kernels of the other two: a third each, and attention_grad, which becomes
    // attention_grad_q and attention_grad_kv, only as these.
    const size_t first = GetParam() == "gpu";
    std::vector<SweepCase> part;
    for (size_t i = 0; i < cases.size(); ++i)
      if (i % 3 == first && cases[i].code != Opcode::attention_grad) part.push_back(std::move(cases[i]));
    cases = std::move(part);
  }
  Stages stages = stagesOf(*moduleOf(cases, 0, cases.size()), streaming);
  ASSERT_TRUE(stages.fused);
  size_t streamed = 0, shared = 0;
  for (Op* op : stages.fused->func("f")->body.ops) {
    if (op->code != Opcode::fused) continue;
    const Schedule schedule = scheduleOf(*op);
    shared += std::holds_alternative<SharedAttentionSchedule>(schedule);
    streamed += scheduleKind(schedule) == "attention";
  }
  // The gradient of all three operands is two kernels. With a bias or a keep, products are computed instead.
  size_t expected = 0;
  for (const SweepCase& each : cases)
    if (!each.name.ends_with(" bias") && !each.name.ends_with(" keep"))
      expected += each.code == Opcode::attention_grad ? 2 : 1;
  EXPECT_EQ(streamed, expected);
  EXPECT_EQ(shared > cases.size() / 4, streaming.matmul == "shared") << shared << " of " << streamed;
  Gpu gpu;
  Checker checker(cases, GetParam());
  for (size_t first = 0; first < cases.size(); first += kModuleCases)
    sweep(gpu, cases, first, std::min(kModuleCases, cases.size() - first), streaming, checker, 1);
}
INSTANTIATE_TEST_SUITE_P(Targets, StreamedAttention, ::testing::Values("lavapipe", "gpu", "vulkan-min"),
                         [](const auto& info) {
                           return info.param == "vulkan-min" ? "vulkan_min" : info.param;
                         });

/// The kernels of matrix units, on a device that has them: for its own target, and with every tile there is.
TEST(CoopmatSweep, MatchesTheOracle) {
  Gpu gpu;
  ASSERT_TRUE(gpu.device());
  Target own = gpu.device()->info().target;
  if (!own.multiplies(DType::f16))
    GTEST_SKIP() << "the device has no subgroups that multiply matrices of f16";
  const std::vector<SweepCase> cases = coopmatCases();
  for (int64_t parallel : {own.parallel, int64_t{1}}) {  // 1: large tiles for small products
    own.parallel = parallel;
    Checker checker(cases, fmt::format("{}, parallel={}", own.name, parallel));
    for (size_t first = 0; first < cases.size(); first += 12) {
      const size_t count = std::min<size_t>(12, cases.size() - first);
      std::unique_ptr<Module> tensor = moduleOf(cases, first, count);
      const Arrays inputs = inputsOf(cases, first, count);
      const std::map<std::string, Expected> expected = expectedOf(*tensor, inputs);
      Stages stages = stagesOf(*tensor, own);
      ASSERT_TRUE(stages.spirv);
      std::vector<Results> run = gpu.run(*stages.spirv, {"f"}, {inputs});
      ASSERT_EQ(run.size(), 1u);
      checker.check("vulkan", expected, run[0]);
      std::vector<Results> again = gpu.run(*stages.spirv, {"f"}, {inputs});
      for (const auto& [name, value] : run[0]) EXPECT_EQ(again[0].at(name).data, value.data) << name;
    }
  }
}

/// Dispatches that use more than one axis of the grid.
int spreadDispatches(const Module& module) {
  int count = 0;
  for (Op* op : module.func("f")->body.ops)
    if (op->code == Opcode::dispatch) count += op->keyword("grid")->items[1].integer > 1;
  return count;
}

/// Groups beyond the limit along x go on along y: with a tiny limit, and with the real one.
void sweepGroups(int64_t limit, int64_t groups, const char* reduce, const char* matmul) {
  constexpr int64_t kWorkgroup = 8;
  Target narrow = shippedTarget("vulkan-min");
  narrow.maxGrid = limit, narrow.workgroup = kWorkgroup, narrow.parallel = 1 << 24;
  narrow.reduce = reduce, narrow.matmul = matmul;
  const std::vector<SweepCase> cases = manyGroupCases(groups, kWorkgroup, narrow);
  Gpu gpu;
  Checker checker(cases, fmt::format("max_grid={} {} {}", limit, reduce, matmul));
  Stages stages = stagesOf(*moduleOf(cases, 0, cases.size()), narrow);
  ASSERT_TRUE(stages.spirv);
  EXPECT_EQ(spreadDispatches(*stages.spirv), static_cast<int>(cases.size()));
  sweep(gpu, cases, 0, cases.size(), narrow, checker, 1);
}
TEST(SweepGroups, GoOnAlongYBeyondATinyLimit) {
  for (const char* reduce : {"lane", "workgroup"})
    for (const char* matmul : {"register", "shared"}) sweepGroups(11, 100, reduce, matmul);
}
TEST(SweepGroups, GoOnAlongYBeyondTheRealLimit) { sweepGroups(65535, 66000, "workgroup", "register"); }

}  // namespace
}  // namespace tg::test
