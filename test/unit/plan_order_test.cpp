// SPDX-License-Identifier: Apache-2.0
// The order of kernels: what may stand together does, memory stays in bounds, results stay the same.
#include <algorithm>
#include <cstdio>
#include <random>

#include "passes/plan/order.h"
#include "runtime/interp/interp.h"
#include "test/unit/plan_support.h"

namespace tg::test {
namespace {

using plan::Intervals;
using plan::Task;

constexpr int64_t kNoLimit = int64_t{1} << 60;

/// Which interval each task is in.
std::vector<int> intervalOf(const Intervals& intervals) {
  std::vector<int> out(intervals.order.size());
  for (size_t at = 0, interval = 0; at < intervals.order.size(); ++at) {
    while (interval + 1 < intervals.starts.size() && static_cast<int>(at) >= intervals.starts[interval + 1])
      ++interval;
    out[intervals.order[at]] = static_cast<int>(interval);
  }
  return out;
}

TEST(PlanOrder, StagesOfIndependentSumsShareABarrier) {
  // Three sums in two stages each: 0 1, 2 3, 4 5.
  std::vector<Task> tasks(6);
  for (int sum = 0; sum < 3; ++sum) {
    tasks[2 * sum].writes = {2 * sum};
    tasks[2 * sum + 1] = {{2 * sum}, {2 * sum}, {2 * sum + 1}, {}};
  }
  std::vector<int64_t> bytes(6, 16);
  EXPECT_EQ(plan::cutIntervals(tasks, bytes).starts, (std::vector<int>{0, 1, 3, 5}));
  Intervals found = plan::orderTasks(tasks, bytes, kNoLimit);
  EXPECT_EQ(found.order, (std::vector<int>{0, 2, 4, 1, 3, 5}));
  EXPECT_EQ(found.starts, (std::vector<int>{0, 3}));
}

TEST(PlanOrder, TowersStandSideBySideOnlyWhereMemoryAllows) {
  // Two chains of three, each holding 100 bytes until its end, then their sum.
  std::vector<Task> tasks(7);
  for (int tower = 0; tower < 2; ++tower)
    for (int at = 0; at < 3; ++at) {
      int self = 3 * tower + at;
      tasks[self].writes = {self};
      if (at) tasks[self].after = {self - 1}, tasks[self].reads = {self - 1};
    }
  tasks[6] = {{2, 5}, {2, 5}, {6}, {}};
  std::vector<int64_t> bytes{100, 100, 1, 100, 100, 1, 1};
  Intervals wide = plan::orderTasks(tasks, bytes, kNoLimit), narrow = plan::orderTasks(tasks, bytes, 250);
  EXPECT_EQ(wide.starts.size(), 4u);
  EXPECT_EQ(wide.peak, 400);
  EXPECT_LE(narrow.peak, 250);
  EXPECT_GT(narrow.starts.size(), 4u);
}

/// Tasks that each write one block and read up to three earlier ones.
std::vector<Task> randomTasks(std::mt19937& random, int count, std::vector<int64_t>& bytes) {
  std::vector<Task> tasks(count);
  for (int task = 0; task < count; ++task) {
    tasks[task].writes = {task};
    bytes.push_back(16 * (1 + static_cast<int64_t>(random() % 9)));
    for (int read = static_cast<int>(random() % 4); task > 0 && read > 0; --read) {
      int from = std::max(0, task - 1 - static_cast<int>(random() % 12));
      auto& after = tasks[task].after;
      if (std::find(after.begin(), after.end(), from) == after.end()) after.push_back(from);
    }
    tasks[task].reads = tasks[task].after;
  }
  return tasks;
}

/// The most bytes alive in an interval, counted here block by block.
int64_t peakOf(const std::vector<Task>& tasks, const std::vector<int64_t>& bytes, const Intervals& found) {
  std::vector<int> interval = intervalOf(found), last = interval;
  for (size_t task = 0; task < tasks.size(); ++task)
    for (int read : tasks[task].reads) last[read] = std::max(last[read], interval[task]);
  int64_t peak = 0;
  for (int at = 0; at < static_cast<int>(found.starts.size()); ++at) {
    int64_t live = 0;
    for (size_t task = 0; task < tasks.size(); ++task)
      if (interval[task] <= at && at <= last[task]) live += bytes[task];
    peak = std::max(peak, live);
  }
  return peak;
}

TEST(PlanOrder, RandomTasksKeepDependencesReachTheLongestChainAndHoldTheLimit) {
  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    std::vector<int64_t> bytes;
    std::vector<Task> tasks = randomTasks(random, 5 + round * 3, bytes);
    std::vector<int> depth(tasks.size(), 1);
    for (size_t task = 0; task < tasks.size(); ++task)
      for (int from : tasks[task].after) depth[task] = std::max(depth[task], depth[from] + 1);
    Intervals free = plan::orderTasks(tasks, bytes, kNoLimit), text = plan::cutIntervals(tasks, bytes);
    EXPECT_EQ(static_cast<int>(free.starts.size()), *std::max_element(depth.begin(), depth.end()));
    Intervals held = plan::orderTasks(tasks, bytes, text.peak);
    EXPECT_LE(held.starts.size(), text.starts.size());
    EXPECT_LE(held.peak, text.peak);
    for (const Intervals& found : {free, text, held}) {
      std::vector<int> sorted = found.order;
      std::sort(sorted.begin(), sorted.end());
      for (size_t task = 0; task < tasks.size(); ++task) ASSERT_EQ(sorted[task], static_cast<int>(task));
      std::vector<int> interval = intervalOf(found);
      for (size_t task = 0; task < tasks.size(); ++task)
        for (int from : tasks[task].after) EXPECT_LT(interval[from], interval[task]);
      EXPECT_EQ(found.peak, peakOf(tasks, bytes, found));
    }
  }
}

/// A random graph of maps and row sums over vectors of two lengths, with two updates of parameters.
std::string randomModule(std::mt19937& random, int ops) {
  auto draw = [&](int below) { return static_cast<int>(random() % below); };
  std::vector<std::pair<std::string, int>> values{{"x", 64}, {"w", 64}, {"u", 256}};
  std::string body;
  for (int index = 0; index < ops; ++index) {
    std::string name = fmt::format("v{}", index);
    auto [from, size] = values[values.size() - 1 - draw(std::min<int>(8, static_cast<int>(values.size())))];
    if (draw(4) == 0) {
      size = size == 64 ? 256 : 64;
      std::string type = fmt::format("tensor<{}xf32>", size);
      body += fmt::format("    %{0} = tg.fused (%{0}_a = %{1}) {{schedule = map}} : {2} {{\n"
                          "      %{0}_s = tg.mean %{0}_a {{axes = [0]}} : tensor<f32>\n"
                          "      %{0}_b = tg.broadcast_to %{0}_s {{shape = [{3}]}} : {2}\n"
                          "      tg.yield %{0}_b : {2}\n    }}\n",
                          name, from, type, size);
    } else {
      std::string type = fmt::format("tensor<{}xf32>", size), other;
      for (auto& [each, extent] : values)
        if (extent == size && (other.empty() || draw(3) == 0)) other = each;
      body += draw(2) ? unary(name, from, type, "tanh") : added(name, from, other, type);
    }
    values.push_back({name, size});
  }
  std::string updates, result, resultType;
  for (auto& [name, size] : values) {
    if (name[0] != 'v') continue;
    if (updates.find(size == 64 ? "@w" : "@u") == std::string::npos && draw(3) == 0)
      updates += fmt::format("    tg.update @{}, %{}\n", size == 64 ? "w" : "u", name);
    result = name, resultType = fmt::format("tensor<{}xf32>", size);
  }
  return fusedModule(
      fmt::format("  param @w : {0}\n  param @u : tensor<256xf32>\n"
                  "  func @train(%x: {0}) -> (y: {1}) {{\n    %w = tg.param @w : {0}\n"
                  "    %u = tg.param @u : tensor<256xf32>\n{2}{3}    return %{4} : {1}\n  }}\n",
                  kT, resultType, body, updates, result));
}

/// Plans a module; `barriers` is how many it announces.
std::unique_ptr<Module> plannedIn(const std::string& order, int64_t slack, const std::string& text,
                                  int* barriers) {
  auto module = parsed(text);
  if (!module) return nullptr;
  PassContext context;
  std::vector<std::string> remarks;
  context.onDiagnostic = [&](const Diagnostic& diagnostic) { remarks.push_back(diagnostic.message); };
  auto ran = run_plan(*module, {.order = order, .slack = slack, .report = true}, context);
  EXPECT_TRUE(ran) << (ran ? "" : ran.error().str());
  auto verified = verify(*module);
  EXPECT_TRUE(verified) << (verified ? "" : verified.error().str()) << print(*module);
  EXPECT_EQ(std::sscanf(remarks.at(0).c_str(), "@train: %*d kernels, %d barriers", barriers), 1);
  return module;
}

NdArray numbers(int count) {
  NdArray out = NdArray::zeros(Type::tensor(DType::f32, {count}));
  for (int i = 0; i < count; ++i) out.data[i] = (i * 29 % 17) / 4.0 - 2.5;
  return out;
}

/// What two steps return and leave in the parameters.
std::vector<std::vector<double>> runTwice(const Module& module) {
  std::vector<std::vector<double>> out;
  auto interp = Interpreter::create(module);
  EXPECT_TRUE(interp) << (interp ? "" : interp.error().str());
  if (!interp) return out;
  EXPECT_TRUE(interp->setStorage("w", numbers(64)));
  EXPECT_TRUE(interp->setStorage("u", numbers(256)));
  for (int step = 0; step < 2; ++step) {
    auto ran = interp->run("train", {{"x", numbers(64)}});
    EXPECT_TRUE(ran) << (ran ? "" : ran.error().str());
    if (!ran) return out;
    out.push_back(ran->result("y")->data);
  }
  for (const char* name : {"w", "u"}) out.push_back(interp->storage(name)->data);
  return out;
}

int kernelBarriers(Module& module) {
  // Those before a dispatch; copies of updates come behind.
  auto ran = run_lower_kernels(module, {}, {});
  EXPECT_TRUE(ran) << (ran ? "" : ran.error().str());
  int barriers = 0, pending = 0;
  for (Op* op : module.func("train")->body.ops) {
    if (op->code == Opcode::barrier) ++pending;
    if (op->code == Opcode::dispatch) barriers += pending, pending = 0;
  }
  return barriers;
}

int copies(const Module& module) {
  const auto& ops = module.func("train")->body.ops;
  return static_cast<int>(
      std::count_if(ops.begin(), ops.end(), [](const auto& op) { return op->code == Opcode::copy; }));
}

TEST(PlanOrder, ReorderedModulesComputeTheSameBitsWithoutFalseHazards) {
  std::mt19937 random(19);
  int fewer = 0;
  for (int round = 0; round < 40; ++round) {
    std::string text = randomModule(random, 8 + round);
    int asked = 0, announced = 0;
    auto kept = plannedIn("text", 0, text, &asked), ordered = plannedIn("barriers", 0, text, &announced);
    ASSERT_TRUE(kept && ordered);
    EXPECT_EQ(runTwice(*kept), runTwice(*ordered)) << text;
    int64_t bound = planSize(*kept, "lower_bound");
    EXPECT_LE(planSize(*ordered, "arena"), std::max(planSize(*kept, "arena"), bound + bound / 20));
    bool moved = print(*kept) != print(*ordered);
    int before = kernelBarriers(*kept), after = kernelBarriers(*ordered);
    EXPECT_LE(asked, before);
    EXPECT_LE(copies(*ordered), copies(*kept));  // who reads a parameter still does so before its update
    EXPECT_LE(after, moved ? announced : before) << text;
    fewer += after < before;
  }
  EXPECT_GT(fewer, 5);
}

/// With room for it, no kernel waits because of bytes that two values share, also where the text's order is the best.
TEST(PlanOrder, SlackLeavesTrueDependencesAlone) {
  constexpr int64_t kSlack = int64_t{1} << 20;
  std::mt19937 random(20);
  int asGood = 0;
  for (int round = 0; round < 40; ++round) {
    std::string text = randomModule(random, 8 + round);
    int asked = 0, announced = 0;
    auto kept = plannedIn("text", 0, text, &asked), ordered = plannedIn("barriers", kSlack, text, &announced);
    ASSERT_TRUE(kept && ordered);
    EXPECT_EQ(runTwice(*kept), runTwice(*ordered)) << text;
    EXPECT_LE(planSize(*ordered, "arena"), planSize(*kept, "lower_bound") + kSlack);
    EXPECT_LE(announced, asked);
    EXPECT_LE(kernelBarriers(*ordered), announced) << text;
    asGood += announced == asked && kernelBarriers(*kept) > asked;
  }
  EXPECT_GT(asGood, 0);
}

TEST(PlanOrder, AnUnknownOrderIsRefused) {
  auto module = parsed(fusedModule("  func @train(%x: " + kT + ") -> (y: " + kT + ") {\n" +
                                   unary("y", "x", kT) + "    return %y : " + kT + "\n  }\n"));
  auto ran = run_plan(*module, {.order = "depth"}, {});
  ASSERT_FALSE(ran);
  EXPECT_EQ(ran.error().message(), "unknown order 'depth'; known: barriers, text");
  auto negative = run_plan(*module, {.slack = -1}, {});
  ASSERT_FALSE(negative);
  EXPECT_EQ(negative.error().message(), "slack=-1 is not in 0..1125899906842623");
}

}  // namespace
}  // namespace tg::test
