// SPDX-License-Identifier: Apache-2.0
// tg-run explain-memory: shows the values that are live at the peak of a function, by source line of the model.
#include <algorithm>
#include <cstdio>
#include <functional>

#include <fmt/format.h>

#include "ir/dims.h"
#include "ir/divide.h"
#include "ir/text.h"
#include "passes/pass.h"
#include "runtime/compile.h"
#include "runtime/train/plan_report.h"
#include "tools/driver/batch_parts.h"
#include "tools/driver/run_setup.h"

namespace tg {

namespace {

constexpr int64_t kBarColumns = 48;
// A timeline of more steps shows the maximum of each group of steps.
constexpr size_t kTimelineRows = 40;
constexpr int kBudgets = 6;  // number of budgets, from the unlimited plan to the least

std::string shortened(std::string text, size_t most) {
  return text.size() <= most ? text : text.substr(0, most - 3) + "...";
}

void printTotals(const MemoryReport& memory) {
  fmt::print("memory of @{}: {} ({} bytes)\n", memory.function, sizeText(memory.totalBytes()),
             memory.totalBytes());
  fmt::print("  persistent {:>12}   params and states\n", sizeText(memory.persistentBytes));
  fmt::print("  io         {:>12}   inputs, results, what is kept to be read\n", sizeText(memory.ioBytes));
  fmt::print("  arena      {:>12}   values of one call; {} live at the peak, lower bound {}\n",
             sizeText(memory.arenaBytes), sizeText(memory.peakBytes()), sizeText(memory.lowerBoundBytes));
}

void printRows(const MemoryReport& memory, std::vector<MemoryValue> rows, size_t top) {
  auto step = [&](int index) {
    return index < 0 || memory.steps.empty() ? "" : memory.steps[static_cast<size_t>(index)].label;
  };
  fmt::print("  {:>11}  {:<22} {:<26} {:<22} {}\n", "size", "value", "type", "from", "born .. dies");
  for (size_t i = 0; i < std::min(top, rows.size()); ++i) {
    const MemoryValue& row = rows[i];
    std::string life = row.room == "arena" ? fmt::format("{} {} .. {} {}", row.first, step(row.first),
                                                         row.last, step(row.last))
                                           : row.room;
    fmt::print("  {:>11}  {:<22} {:<26} {:<22} {}\n", sizeText(row.bytes), shortened(row.name, 22),
               shortened(row.type, 26), row.source.empty() ? "-" : row.source, life);
  }
  if (rows.size() > top) {
    int64_t rest = 0;
    for (size_t i = top; i < rows.size(); ++i) rest += rows[i].bytes;
    fmt::print("  {:>11}  in {} more\n", sizeText(rest), rows.size() - top);
  }
}

void printTimeline(const MemoryReport& memory) {
  if (memory.peakBytes() == 0) return;
  size_t stretch = divideCeil(memory.steps.size(), kTimelineRows);
  fmt::print("\nlive bytes of the arena by step{}:\n",
             stretch > 1 ? fmt::format(" (the highest of every {})", stretch) : "");
  for (size_t from = 0; from < memory.steps.size(); from += stretch) {
    size_t most = from;
    for (size_t i = from; i < std::min(from + stretch, memory.steps.size()); ++i)
      if (memory.steps[i].liveBytes > memory.steps[most].liveBytes) most = i;
    const auto& step = memory.steps[most];
    auto bar = static_cast<size_t>(divideCeil(step.liveBytes * kBarColumns, memory.peakBytes()));
    fmt::print("  {:>4} {:<22} {:>11} {}{}\n", most, shortened(step.label, 22), sizeText(step.liveBytes),
               std::string(bar, '#'), static_cast<int>(most) == memory.peak ? " peak" : "");
  }
}

/// A plan for the whole batch, or for parts of it.
struct BudgetPoint {
  int64_t parts = 1;
  int64_t bytes = 0;
  double time = 1;  ///< of a step, relative to the unlimited plan

  /// The value that --memory compares.
  double price() const { return parts == 1 ? time / kWholeBatch : time; }
  /// Whether --memory always prefers this one to the other.
  bool covers(const BudgetPoint& other) const { return bytes <= other.bytes && price() <= other.price(); }
};

void printBudgets(const std::vector<BudgetPoint>& points) {
  const auto all = static_cast<double>(points.front().bytes);
  fmt::print("memory against time, as plan{{budget}} and --memory keep it (time by the cost model, 100 % is "
             "the free "
             "plan):\n");
  fmt::print("  {:>14} {:>12} {:>9} {:>7}\n", "bytes", "", "memory", "time");
  for (const BudgetPoint& point : points) {
    const double part = static_cast<double>(point.bytes) / all;
    fmt::print("  {:>14} {:>12} {:>7.1f} % {:>5.0f} % {}{}\n", point.bytes, sizeText(point.bytes), 100 * part,
               100 * point.time, std::string(static_cast<size_t>(part * kBarColumns + 0.5), '#'),
               point.parts > 1 ? fmt::format(" in {} parts", point.parts) : "");
  }
}

struct ExplainMemory : Verb {
  ModelFlags model;
  std::string function = "train", target;
  Target chosen;
  size_t top = 12;
  bool budgets = false;

  void describe(CLI::App& app) override {
    app.description("Shows what is live at a function's memory peak, by line of the model. Needs no "
                    "device\nunless --target=auto. FILE may be a workload of bench.");
    addValue(app, "FILE", " ", model.file, "the module, of any stage; - or nothing is standard input");
    addValue(app, "--function", "NAME", function, "the function")->capture_default_str();
    addPassFlags(app, model, "run these passes first");
    addValue(app, "--target", "TARGET", target,
             "plan for a shipped target or a JSON file; auto is the device's");
    addValue(app, "--top", "N", top, "values to list")->capture_default_str();
    app.add_flag("--budgets", budgets, "print the time that smaller memory budgets cost, down to the least");
  }

  /// The memory of a plan, and its number of rows; 0 if no argument says which axis is the batch.
  struct Planned {
    MemoryReport memory;
    int64_t batch = 0;
  };
  Result<Planned> planned(std::unique_ptr<Module> module, const std::string& pipeline) const {
    TG_TRY(const std::unique_ptr<Module> done, compiled(std::move(module), pipeline));
    const Item& func = *done->func(function);
    return Planned{memoryReport(*done, func), batchSize(func)};
  }

  /// The target to plan for.
  Result<Target> choose(const Module& module) const {
    const bool planned = module.stage >= Stage::planned;
    if (target.empty() || (planned && target == "auto")) return chosen;
    return target == "auto" ? withCode(exitDevice, deviceTarget()) : takeTarget(target, module);
  }

  /// Compiles the function to the point where a run plans its memory. The others, which share the buffers in a plan of
  /// all, are left out.
  Result<std::unique_ptr<Module>> compiled(std::unique_ptr<Module> module,
                                           const std::string& pipeline) const {
    TG_CHECK(runFirst(pipeline, module, {}));
    keepEntries(*module, {function});
    CompileOptions options;
    options.until = Stage::planned;
    options.keepCaptures = "";
    TG_TRY(Compiled done, compile(std::move(module), chosen, options));
    return std::move(done.module);
  }

  /// The plan without a budget, the one with the fewest bytes, and some between; then those for parts of the batch that
  /// take fewer bytes.
  Result<std::vector<BudgetPoint>> budgetPoints(const Module& module) const {
    if (module.stage >= Stage::planned)
      return fail("--budgets plans memory, and the module is of stage {}", name(module.stage));
    CompileOptions options;
    options.pipeline = model.pipeline;
    options.keepCaptures = "";
    PlansInParts plans(module, {function}, chosen, options);
    TG_TRY(const PlanCost all, plans.plan(1, ""));
    TG_TRY(const PlanCost least, plans.plan(1, "least"));
    std::vector<BudgetPoint> points;
    auto add = [&](int64_t parts, const PlanCost& cost) {
      const BudgetPoint point{parts, cost.bytes, cost.work / all.work};
      auto covers = [&](const BudgetPoint& other) { return other.covers(point); };
      if (std::ranges::any_of(points, covers)) return;
      // Keep the plan without a budget, since the others are compared with it.
      std::erase_if(points,
                    [&](const BudgetPoint& other) { return other.bytes < all.bytes && point.covers(other); });
      points.push_back(point);
    };
    add(1, all);
    for (int part = 1; part < kBudgets; ++part) {
      const int64_t budget = all.bytes - (all.bytes - least.bytes) / kBudgets * part;
      TG_TRY(const PlanCost point, plans.plan(1, std::to_string(budget)));
      add(1, point);
    }
    add(1, least);
    if (plans.checkParts())
      for (const int64_t parts : plans.divisors())
        for (const char* budget : {"", "least"})
          if (auto cost = plans.plan(parts, budget)) add(parts, *cost);
    std::ranges::stable_sort(points, std::greater(), &BudgetPoint::bytes);
    return points;
  }

  Result<int> run(CLI::App& app, const Arguments&) override {
    TG_TRY(std::unique_ptr<Module> module, loadModel(app, model, function));
    TG_TRY(chosen, choose(*module));
    auto source = clone(*module);
    TG_CHECK(runFirst(model.pipeline, module, toldOn(model)));
    if (budgets) {
      TG_TRY(const std::vector<BudgetPoint> points, budgetPoints(*source));
      printBudgets(points);
      return exitOk;
    }
    TG_TRY(const Planned now, planned(std::move(module), ""));
    const MemoryReport* memory = &now.memory;
    printTotals(*memory);
    fmt::print("\nlive at the peak, step {} ({}):\n", memory->peak,
               memory->peak < 0 ? "none" : memory->steps[static_cast<size_t>(memory->peak)].label);
    printRows(*memory, memory->liveAtPeak(), top);
    std::vector<MemoryValue> fixed;
    for (const MemoryValue& value : memory->values)
      if (value.room != "arena") fixed.push_back(value);
    std::ranges::stable_sort(fixed, std::greater(), &MemoryValue::bytes);
    fmt::print("\nalways there:\n");
    printRows(*memory, fixed, top);
    printTimeline(*memory);
    TG_CHECK(whatIf(std::move(source), now));
    return exitOk;
  }

  /// Shows the plan for half the rows; if the pipeline sets the batch size, for half of that.
  Result<void> whatIf(std::unique_ptr<Module> source, const Planned& now) const {
    if (source->stage != Stage::tensor || now.batch < 2 || hasUpdate(*source, function)) return {};
    TG_TRY(PassManager passes, PassManager::parse(model.pipeline));
    bool sets = false;
    for (PipelineStep& step : passes.steps()) {
      if (step.pass->name != "set-batch" || !find(step.options, "n")) continue;
      set(step.options, "n", Attr::of(now.batch / 2));
      sets = true;
    }
    std::string pipeline = passes.str();
    if (!sets)
      pipeline = fmt::format("set-batch{{n={}}}{}{}", now.batch / 2, pipeline.empty() ? "" : ",", pipeline);
    const auto half = planned(std::move(source), pipeline);
    if (!half) {
      fmt::print("\nnot planned with half its batch: {}\n", half.error().message());
      return {};
    }
    if (half->batch != now.batch / 2) return {};  // another pass sets the batch size
    const MemoryReport &less = half->memory, &all = now.memory;
    fmt::print("\nwith a batch of {} instead of {}: {} in all, {} of arena ({:.0f} % of now)\n", half->batch,
               now.batch, sizeText(less.totalBytes()), sizeText(less.arenaBytes),
               100.0 * static_cast<double>(less.totalBytes()) / static_cast<double>(all.totalBytes()));
    return {};
  }
};

}  // namespace

std::unique_ptr<Verb> makeExplainMemory() { return std::make_unique<ExplainMemory>(); }

}  // namespace tg
