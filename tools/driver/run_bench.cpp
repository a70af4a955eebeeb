// tg-run bench: how long training steps take, what they launch and what memory they plan.
#include <algorithm>
#include <chrono>
#include <cstdio>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "runtime/train/random_inputs.h"
#include "tools/driver/bench_models.h"
#include "tools/driver/run_setup.h"

namespace tg {

namespace {

constexpr const char* kTrain = "train";
constexpr int kLeastSteps = 20, kMostSteps = 10000;

struct BenchFlags {
  int steps = kLeastSteps, warmup = 5;
  double minTime = 1;
  bool json = false;
};

struct Timing {
  std::vector<double> milliseconds;  ///< of each step, sorted
  double firstLoss = 0, lastLoss = 0;
  double median() const { return milliseconds[milliseconds.size() / 2]; }
};

Result<Timing> measure(Session& session, const Inputs& inputs, const BenchFlags& flags) {
  Timing timing;
  using Clock = std::chrono::steady_clock;
  auto since = [](Clock::time_point start) {
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  };
  for (int i = 0; i < flags.warmup; ++i) {
    TG_TRY(StepResult step, session.step(inputs));
    if (i == 0) timing.firstLoss = step.loss;
  }
  auto start = Clock::now();
  int count = 0;
  while (count < flags.steps || (since(start) < flags.minTime * 1e3 && count < kMostSteps)) {
    auto begin = Clock::now();
    TG_TRY(StepResult step, session.step(inputs));
    timing.milliseconds.push_back(since(begin));
    timing.lastLoss = step.loss;
    if (count++ == 0 && flags.warmup == 0) timing.firstLoss = step.loss;
  }
  std::sort(timing.milliseconds.begin(), timing.milliseconds.end());
  return timing;
}

using Json = nlohmann::ordered_json;

Json toJson(const std::string& model, const OpenModel& open, int64_t kernels, const Timing& timing) {
  SessionInfo info = open.session->info();
  Json phases = Json::object();
  for (const auto& [phase, ms] : open.milliseconds) phases[phase] = phases.value(phase, 0.0) + ms;
  return {{"model", model},
          {"device", info.device},
          {"driver", info.driver},
          {"ms_median", timing.median()},
          {"ms_min", timing.milliseconds.front()},
          {"steps", timing.milliseconds.size()},
          {"kernels", kernels},
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

struct Bench : Verb {
  ModelFlags model;
  BenchFlags flags;

  void describe(CLI::App& app) override {
    app.description("Times steps of @train on random inputs. FILE may be a workload: " +
                    fmt::format("{}.", fmt::join(benchModelNames(), ", ")));
    addModelFlags(app, model);
    app.add_option("--steps", flags.steps, "steps to time, at least")
        ->capture_default_str()
        ->check(CLI::Range(kLeastSteps, kMostSteps));
    app.add_option("--warmup", flags.warmup, "steps before")
        ->capture_default_str()
        ->check(CLI::NonNegativeNumber);
    app.add_option("--min-time", flags.minTime, "seconds of steps, at least")->capture_default_str();
    app.add_flag("--json", flags.json, "print JSON");
  }
  int run(CLI::App& app, const Arguments&) override {
    std::unique_ptr<Module> module;
    if (int code = loadModel(app, model, kTrain, module)) return code;
    auto inputs = randomInputs(*module->func(kTrain));
    if (!inputs) return report(app, exitInput, inputs.error());
    OpenModel open;
    if (int code = openModel(app, model, std::move(module), {kTrain}, open)) return code;
    auto timing = measure(*open.session, *inputs, flags);
    if (!timing) return report(app, open.session->device() ? exitDevice : exitInput, timing.error());
    auto kernels = open.session->kernelCount(kTrain);
    Json row = toJson(model.file, open, kernels ? *kernels : 0, *timing);
    if (flags.json)
      fmt::print("{}\n", row.dump(2));
    else
      printText(row);
    return exitOk;
  }
};

}  // namespace

std::unique_ptr<Verb> makeBench() { return std::make_unique<Bench>(); }

}  // namespace tg
