// SPDX-License-Identifier: Apache-2.0
// tg-run bench: measures the time of training steps, what they launch, the memory they plan, and the compilation.
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/json_text.h"
#include "ir/parser.h"
#include "ir/stopwatch.h"
#include "ir/verify.h"
#include "runtime/train/feed.h"
#include "runtime/train/plan_report.h"
#include "tools/driver/batch_parts.h"
#include "tools/driver/bench_models.h"
#include "tools/driver/io.h"
#include "tools/driver/run_setup.h"

namespace tg {

namespace {

constexpr int kLeastSteps = 20, kMostSteps = 10000;
/// Devices start slowly: clocks must rise, and memory is mapped when it is first accessed.
constexpr double kWarmSeconds = 0.3;
/// Steps are timed in groups of about this many milliseconds, so that the host's part of the first and of the last one
/// does not matter; but at least kLeastTogether and at most kLeastSteps together.
constexpr double kTogether = 5, kLeastTogether = 5;

struct BenchFlags {
  int steps = kLeastSteps, warmup = 5;
  double minTime = 1;
  int64_t microBatch = 0;  ///< rows to run at once; 0 means all
  bool json = false, compile = false, wait = false;
  std::string results, table, against;
};

struct Timing {
  std::vector<double> milliseconds;  ///< of a step, sorted: the means over groups of steps timed together
  int steps = 0;
  double firstLoss = 0, lastLoss = 0;
  double median() const { return milliseconds[milliseconds.size() / 2]; }
};

/// Runs steps as tg-run train does, beginning each one before the previous loss is read. The device is idle before the
/// first and after the last, so the time includes no other steps. Returns the mean milliseconds of a step.
Result<double> timeSteps(Session& session, const Inputs& inputs, int count, double& loss) {
  const Stopwatch watch;
  for (int begun = 0, ended = 0; ended < count; ++ended) {
    for (; begun < count && begun < ended + 2; ++begun) TG_CHECK(session.beginStep(inputs));
    TG_TRY(StepResult step, session.endStep());
    loss = step.loss;
  }
  return watch.milliseconds() / count;
}

/// Runs warm-up steps, and then times steps in groups until there are enough of them and enough time has passed.
Result<Timing> measure(Session& session, const Inputs& inputs, const BenchFlags& flags) {
  Timing timing;
  std::optional<double> firstLoss;
  double each = 0;
  auto time = [&](int count) -> Result<void> {
    TG_TRY(each, timeSteps(session, inputs, count, timing.lastLoss));
    if (!firstLoss) firstLoss = timing.lastLoss;
    return {};
  };
  Stopwatch watch;
  auto isCold = [&](int steps) {
    return steps < flags.warmup || (flags.warmup > 0 && watch.seconds() < kWarmSeconds);
  };
  for (int i = 0; isCold(i); ++i) TG_CHECK(time(1));
  const int together =
      flags.wait || each <= 0
          ? 1
          : static_cast<int>(std::clamp(kTogether / each, kLeastTogether, double(kLeastSteps)));
  watch = Stopwatch();
  while (timing.steps < flags.steps || (watch.seconds() < flags.minTime && timing.steps < kMostSteps)) {
    const int count =
        std::min(together, (timing.steps < flags.steps ? flags.steps : kMostSteps) - timing.steps);
    TG_CHECK(time(count));
    timing.steps += count;
    timing.milliseconds.push_back(each);
  }
  timing.firstLoss = firstLoss.value_or(0);
  std::ranges::sort(timing.milliseconds);
  return timing;
}

/// The number of items in a step: tokens if the inputs are sequences of ids, else rows of the first input.
int64_t itemsOf(const Item& func) {
  if (func.body.args.empty()) return 1;
  const Type& type = func.body.args.front()->type;
  if (type.shape.rank() == 0) return 1;
  bool sequences = type.dtype == DType::i32 && type.shape.rank() == 2;
  return sequences ? type.elements() : type.shape[0];
}

/// The functions that a step with an update calls, and how often: @train for each part, and then the update after
/// several calls.
std::vector<std::pair<const Item*, int64_t>> callsOf(const Module& module, int64_t parts) {
  std::vector<std::pair<const Item*, int64_t>> calls;
  for (const Item* func : module.all(ItemKind::func)) {
    if (func->name == kTrain) calls.emplace_back(func, parts);
    if (find(func->attrs, "every")) calls.emplace_back(func, 1);
  }
  return calls;
}

int64_t kernelsOf(const OpenModel& open) {
  int64_t kernels = 0;
  for (const auto& [func, calls] : callsOf(*open.session->module(), open.parts))
    if (auto count = open.session->kernelCount(func->name)) kernels += *count * calls;
  return kernels;
}

/// Adds the rates: the work of a step divided by its time.
void addRates(Json& row, const OpenModel& open) {
  double seconds = row["ms_median"].get<double>() / 1e3, flops = 0, bytes = 0;
  const int64_t items = itemsOf(*open.source->func(kTrain)) * open.parts;
  row["items"] = items;
  row["items_per_second"] = static_cast<double>(items) / seconds;
  const Module& module = *open.session->module();
  if (!module.func(kTrain) || module.stage < Stage::kernel) return;
  const Item* update = updateFunction(module, kTrain);
  for (const auto& [func, count] : callsOf(module, open.parts)) {
    const Attr* every = find(func->attrs, "every");
    const double calls = func == update ? static_cast<double>(open.parts) : static_cast<double>(count);
    const double share = every ? calls / static_cast<double>(every->integer) : calls;
    for (const CommandReport& command : commandReports(module, *func)) {
      flops += command.flops * share;
      bytes += command.bytes * share;
    }
  }
  row["flops"] = flops;
  row["bytes"] = bytes;
  row["gflops"] = flops / seconds / 1e9;
  row["gbytes"] = bytes / seconds / 1e9;
}

Json toJson(const std::string& model, const OpenModel& open, const Timing& timing) {
  SessionInfo info = open.session->info();
  Json phases = Json::object();
  for (const auto& [phase, ms] : open.milliseconds) phases[phase] = phases.value(phase, 0.0) + ms;
  return {{"model", model},
          {"device", info.device},
          {"driver", info.driver},
          {"ms_median", timing.median()},
          {"ms_min", timing.milliseconds.front()},
          {"steps", timing.steps},
          {"parts", open.parts},
          {"kernels", kernelsOf(open)},
          {"parameters", info.parameters},
          {"arena_bytes", info.persistentBytes + info.ioBytes + info.arenaBytes},
          {"persistent_bytes", info.persistentBytes},
          {"io_bytes", info.ioBytes},
          {"transient_bytes", info.arenaBytes},
          {"transient_lower_bound_bytes", info.lowerBoundBytes},
          {"compile_ms", open.compileMs()},
          {"compile_phases_ms", phases},
          {"first_loss", timing.firstLoss},
          {"last_loss", timing.lastLoss}};
}

void printText(const Json& row) {
  auto number = [&](const char* key) { return row[key].get<double>(); };
  fmt::print("{} on {}\n", row["model"].get<std::string>(), row["device"].get<std::string>());
  fmt::print("  step      {:.3f} ms median, {:.3f} ms min of {} steps\n", number("ms_median"),
             number("ms_min"), row["steps"].get<int64_t>());
  if (row["parts"].get<int64_t>() > 1)
    fmt::print("  parts     {} of the batch, one after the other: a step is all of them\n",
               row["parts"].get<int64_t>());
  fmt::print("  kernels   {} (dispatches, copies and fills of a step)\n", row["kernels"].get<int64_t>());
  fmt::print("  arena     {} bytes: persistent {}, io {}, transient {} (lower bound {})\n",
             row["arena_bytes"].get<int64_t>(), row["persistent_bytes"].get<int64_t>(),
             row["io_bytes"].get<int64_t>(), row["transient_bytes"].get<int64_t>(),
             row["transient_lower_bound_bytes"].get<int64_t>());
  std::string phases;
  for (const auto& [phase, ms] : row["compile_phases_ms"].items())
    phases += fmt::format("{}{} {:.1f}", phases.empty() ? "" : ", ", phase, ms.get<double>());
  fmt::print("  compile   {:.1f} ms: {}\n", number("compile_ms"), phases);
  fmt::print("  loss      {:.4f} first, {:.4f} last (the same inputs in every step)\n", number("first_loss"),
             number("last_loss"));
}

/// Creates an empty folder for all caches, ours and the driver's, and removes it in the destructor.
class EmptyCaches {
 public:
  EmptyCaches() {
    std::string name = (std::filesystem::temp_directory_path() / "tg-bench-XXXXXX").string();
    if (!mkdtemp(name.data())) return;
    folder_ = name;
    // Drivers read these variables when they are loaded.
    const char* variables[] = {"TENSORGRAD_CACHE", "MESA_SHADER_CACHE_DIR", "MESA_GLSL_CACHE_DIR",
                               "__GL_SHADER_DISK_CACHE_PATH"};
    for (const char* variable : variables) setenv(variable, name.c_str(), 1);
  }
  EmptyCaches(const EmptyCaches&) = delete;
  ~EmptyCaches() {
    std::error_code ignored;
    if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
  }
  bool made() const { return !folder_.empty(); }

 private:
  std::string folder_;
};

double cpuMilliseconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  auto ms = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_usec) / 1e3;
  };
  return ms(usage.ru_utime) + ms(usage.ru_stime);
}

struct Bench : Verb {
  ModelFlags model;
  BenchFlags flags;

  void describe(CLI::App& app) override {
    app.description("Times steps of @train on random inputs. FILE may be a workload: " +
                    fmt::format("{}.", fmt::join(benchModelNames(), ", ")));
    addModelFlags(app, model);
    addNumber(app, "--steps", flags.steps,
              fmt::format("steps to time, at least; {} to {}", kLeastSteps, kMostSteps),
              between(kLeastSteps, kMostSteps));
    addNumber(app, "--warmup", flags.warmup, "steps before timing", atLeast(0));
    addNumber(app, "--min-time", flags.minTime, "least total time of the steps, in seconds", atLeast(0));
    addValue(app, "--micro-batch", "N", flags.microBatch, kMicroBatchHelp)->check(atLeast(1));
    app.add_flag("--wait", flags.wait, "read the loss of each step before the next begins");
    app.add_flag("--json", flags.json, "print JSON");
    app.add_flag("--compile", flags.compile, "also time compiling, with empty and then with full caches");
    addValue(app, "--results", "FILE", flags.results,
             "write the results to this JSON file, in place of the model's earlier ones");
    addValue(app, "--table", "FILE", flags.table, "measure nothing; print a file of --results as a table")
        ->excludes("--results")
        ->excludes("FILE");
    addValue(app, "--against", "FILE", flags.against,
             "with --table: print ratios to the results of this file")
        ->needs("--table");
  }
  Result<int> printTable() {
    TG_TRY(const auto rows, readResults(flags.table));
    if (flags.against.empty()) return fmt::print("{}", resultsTable(rows)), exitOk;
    TG_TRY(const auto old, readResults(flags.against));
    fmt::print("new over old:\n\n{}", ratiosTable(rows, old));
    return exitOk;
  }
  /// Opens the model and adds the times of its compilation to `split`; `text` is the module's.
  Result<OpenModel> timeCompiling(const std::string& text, Json& split) {
    const Stopwatch watch;
    double cpu = cpuMilliseconds();
    TG_TRY(std::unique_ptr<Module> module, parse(text, model.file));
    TG_CHECK(verify(*module));
    double parsing = watch.milliseconds();
    TG_TRY(OpenModel open, openStep(model, flags.microBatch, std::move(module)));
    split = compileSplit(parsing, open.milliseconds);
    split["cpu"] = cpuMilliseconds() - cpu;
    return open;
  }
  /// Opens the model; with --compile twice, and both times are added to `compiling`.
  Result<OpenModel> openTimed(std::unique_ptr<Module> module, Json& compiling) {
    if (!flags.compile) return openStep(model, flags.microBatch, std::move(module));
    const std::string text = print(*module);
    Json cold, warm;
    TG_CHECK(timeCompiling(text, cold));
    TG_TRY(OpenModel open, timeCompiling(text, warm));
    compiling = {{"compile_cold_ms", cold}, {"compile_warm_ms", warm}};
    return open;
  }
  /// Checks that the results can be added to the file, before they are measured.
  Result<void> judgeResults() {
    if (flags.results.empty()) return {};
    TG_CHECK(withCode(exitUsage, mayReplace("--results", flags.results, beginsText, filesRead(model))));
    TG_CHECK(
        withCode(exitUsage, notOneFile({{"--emit-module", model.emitModule}, {"--results", flags.results}})));
    TG_CHECK(resultsBefore(flags.results));
    return {};
  }
  Result<int> run(CLI::App& app, const Arguments&) override {
    if (!flags.table.empty()) return printTable();
    TG_CHECK(judgeResults());
    TG_TRY(std::unique_ptr<Module> module, loadModel(app, model, kTrain));
    TG_TRY(const Inputs inputs, randomInputs(*module->func(kTrain)));
    // Drivers write their caches as long as there is a device, so the folder must outlive the session.
    std::optional<EmptyCaches> caches;
    if (flags.compile && !caches.emplace().made()) return fail("no temporary folder can be made");
    Json compiling = Json::object();
    TG_TRY(const OpenModel open, openTimed(std::move(module), compiling));
    TG_TRY(const auto timing,
           withCode(open.session->device() ? exitDevice : exitInput, measure(*open.session, inputs, flags)));
    Json row = toJson(model.file, open, timing);
    addRates(row, open);
    row.update(compiling);
    if (flags.json)
      fmt::print("{}\n", jsonText(row, 2));
    else
      printText(row);
    if (!flags.results.empty()) TG_CHECK(addResult(flags.results, row));
    return exitOk;
  }
};

}  // namespace

std::unique_ptr<Verb> makeBench() { return std::make_unique<Bench>(); }

}  // namespace tg
