// SPDX-License-Identifier: Apache-2.0
// tg-run profile: shows the device's time by kernel, and the host's overhead.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/dims.h"
#include "ir/stopwatch.h"
#include "runtime/profile_report.h"
#include "runtime/train/feed.h"
#include "runtime/train/run_dir.h"
#include "tools/driver/batch_parts.h"
#include "tools/driver/bench_models.h"
#include "tools/driver/io.h"
#include "tools/driver/ranks.h"
#include "tools/driver/run_setup.h"
#include "tools/driver/train_share.h"

namespace tg {

namespace {

/// Whether these bytes begin a file that chromeTrace wrote.
bool beginsTrace(std::string_view bytes) { return bytes.starts_with("{\"displayTimeUnit\""); }

void printTable(const std::vector<ProfiledKernel>& kernels, const Ceilings& ceilings) {
  size_t name = 6, label = 5;
  for (const ProfiledKernel& kernel : kernels) {
    name = std::max(name, kernel.kernel.size());
    label = std::max(label, kernel.label.size() + (kernel.otherLabels ? 4 : 0));
  }
  name = std::min<size_t>(name, 36);
  label = std::min<size_t>(label, 30);
  fmt::print("{:<{}}  {:<{}} {:>5} {:>10} {:>7} {:>8} {:>9}  {}\n", "kernel", name, "label", label, "calls",
             "ms", "share", "GB/s", "GFLOP/s", "bound by");
  for (const ProfiledKernel& kernel : kernels) {
    std::string more = kernel.otherLabels ? ", ..." : "";
    const RoofPlace roof = placeUnder(ceilings, kernel);
    const std::string told = sentence(kernel.statistics);
    fmt::print("{:<{}}  {:<{}} {:>5} {:>10.4f} {:>6.1f}% {:>8.2f} {:>9}  {} {:.0f}%{}{}\n",
               cut(kernel.kernel, name), name, cut(kernel.label, label - more.size()) + more, label,
               kernel.calls, kernel.microseconds * 1e-3, 100 * kernel.share, kernel.gigabytesPerSecond(),
               kernel.counted ? fmt::format("{:.2f}", kernel.gigaflopsPerSecond()) : "-",
               roof.compute ? "compute" : "memory", 100 * roof.share, told.empty() ? "" : "  ", told);
  }
}

void printCeilings(const Ceilings& ceilings) {
  fmt::print("ceilings, measured: {:.2f} GB/s (copy of {} MiB), {:.1f} GFLOP/s (f32 fma)\n\n",
             ceilings.gigabytesPerSecond, ceilings.copyBytes >> 20, ceilings.gigaflopsPerSecond);
}

void printTotals(const Profile& profile) {
  auto row = [](const char* what, double ms, const std::string& note) {
    fmt::print("{:<9} {:>10.4f} ms  {}\n", what, ms, note);
  };
  fmt::print("\n");
  row("commands", profile.commandMilliseconds(), "each timed by itself, added up");
  row("device", profile.deviceMilliseconds, "a call from its first command to its last");
  row("wall", profile.wallMilliseconds, fmt::format("a call, median of {}", profile.repetitions));
  row("host", profile.hostMilliseconds,
      fmt::format("what a call takes besides the device: {:.2f} % of wall", 100 * profile.hostShare()));
}

/// Prints the cost of collectives in milliseconds for each call.
void printCollectives(const std::vector<CollectiveTimes>& collectives) {
  fmt::print("{:<12} {:>12} {:>12} {:>8} {:>12} {:>8} {:>12} {:>8} {:>10}\n", "collective", "bytes",
             "to host ms", "GB/s", "exchange ms", "GB/s", "to device ms", "GB/s", "waited ms");
  for (const CollectiveTimes& each : collectives) {
    if (each.times == 0) continue;
    const auto times = static_cast<double>(each.times);
    auto phase = [&](int64_t bytes, double seconds) {
      return fmt::format("{:>12.4f} {:>8.2f}", seconds * 1e3 / times, transferRate(each, bytes, seconds));
    };
    fmt::print("{:<12} {:>12} {} {} {} {:>10.4f}\n", fmt::format("@{} {}", each.function, each.id),
               each.bytes, phase(each.toHostBytes, each.toHost), phase(each.bytes, each.exchange),
               phase(each.toDeviceBytes, each.toDevice), each.waited * 1e3 / times);
  }
}

struct ProfileVerb : Verb {
  ModelFlags model;
  std::string function = kTrain;
  ProfileOptions options;
  std::string trace, roofline;
  int64_t microBatch = 0;  ///< rows to run at once; 0 means all
  bool json = false;
  RankFlags rankFlags;

  void describe(CLI::App& app) override {
    app.description("Times each kernel of a function on the device, and the time the host adds. FILE may be "
                    "a\nrun, whose compiled module is used, or a workload: " +
                    fmt::format("{}.", fmt::join(benchModelNames(), ", ")));
    addModelFlags(app, model);
    addValue(app, "--function", "NAME", function, "the function to call, on random inputs")
        ->capture_default_str();
    addValue(app, "--steps", "N", options.repetitions, "calls, of which medians are printed; 1 to 10000")
        ->capture_default_str()
        ->check(between(1, 10000));
    addValue(app, "--micro-batch", "N", microBatch, kMicroBatchHelp)->check(atLeast(1));
    addValue(app, "--trace", "FILE", trace, "write the calls as a trace for Chrome or Perfetto");
    addValue(app, "--roofline", "FILE", roofline, "write a page with a roofline chart of the kernels");
    app.add_flag("--statistics", model.statistics,
                 "add the driver's statistics of each kernel: registers, shared memory, spills");
    app.add_flag("--json", json, "print JSON");
    addRankFlags(app, rankFlags, "Options");
  }

  /// Sets the number of parts in which a run's steps process the batch of the text. If the run's ranks share a batch,
  /// uses this rank's rows.
  Result<void> takeParts(const Module& final, std::unique_ptr<Module>& source) {
    const Item* written = source->func(kTrain);
    const int64_t rows = batchSize(*final.func(kTrain)), all = written ? batchSize(*written) : 0;
    if (rows == 0 || all == rows) return {};
    if (all % rows == 0 && callsPerUpdate(final) % (all / rows) == 0) {
      model.parts = all / rows;
      return {};
    }
    return setBatch(kTrain, rows, source);
  }

  /// Opens FILE and makes random inputs.
  Result<OpenModel> open(const CLI::App& app, Inputs& inputs) {
    TG_TRY(const std::string run, takeRun(model));
    std::unique_ptr<Module> source;
    if (!run.empty()) {
      // The ranges of random ids come from the source module, because the final one does not say which table an id
      // indexes.
      ModelFlags written = model;
      written.file = RunDir{run}.model();
      TG_TRY(source, loadModule(app, written));
      model.file = RunDir{run}.finalModule();
    }
    TG_TRY(std::unique_ptr<Module> module, loadModel(app, model, function));
    if (source && function == kTrain) TG_CHECK(takeParts(*module, source));
    const Item* known = source ? source->func(function) : nullptr;
    TG_TRY(inputs, randomInputs(known ? *known : *module->func(function)));
    if (microBatch && function != kTrain) return usageError("--micro-batch is of steps, which call @train");
    if (function == kTrain) return openStep(model, microBatch, std::move(module));
    return openModel(model, std::move(module), {function});
  }

  Result<void> writeFiles(const Profile& profile, const Ceilings& ceilings,
                          const ProfileSubject& subject) const {
    if (!trace.empty()) TG_CHECK(writeOutput(trace, chromeTrace(profile, subject)));
    if (!roofline.empty()) TG_CHECK(writeOutput(roofline, rooflinePage(profile, ceilings, subject)));
    return {};
  }

  /// Times the collectives of several ranks, but not their kernels.
  int runRanks(const CLI::App& app, std::shared_ptr<collective::Engine> ranks) {
    model.ranks = std::move(ranks);
    model.localRank = localRank();
    if (int code = initGpuCollectives(app, rankFlags, model)) return code;
    ranks = model.ranks;
    const bool first = ranks->rank() == 0;
    model.notes = model.notes && first;
    const std::string given = model.file;
    Inputs inputs;
    auto opened = !trace.empty() || !roofline.empty() || model.statistics
                      ? usageError("--trace, --roofline and --statistics need a single rank")
                      : open(app, inputs);
    const RankFacts facts = opened ? factsOf(*opened->session) : RankFacts();
    if (int code = compareRanks(app, *ranks, opened ? Result<int>(exitOk) : opened.error(), facts))
      return code;
    Session& session = *opened->session;
    auto measured = measureCollectives(session, inputs);
    if (!measured) return endJob(app, *ranks, withCode(exitDevice, measured.takeError()));
    if (!first) return exitOk;
    if (json) {
      fmt::print("{}", toJson(measured->collectives));
      return exitOk;
    }
    fmt::print("@{} of {} on {}, {}\n", function, given, session.info().device, ranks->describe());
    printCollectives(measured->collectives);
    fmt::print("\nwall {:.4f} ms a call, mean of {}\n", measured->milliseconds, options.repetitions);
    return exitOk;
  }

  struct Measured {
    std::vector<CollectiveTimes> collectives;
    double milliseconds = 0;  ///< for each call
  };

  /// Measures after two warm-up calls.
  Result<Measured> measureCollectives(Session& session, const Inputs& inputs) const {
    auto call = [&](int count) -> Result<void> {
      for (int i = 0; i < count; ++i) TG_CHECK(session.run(function, inputs));
      return {};
    };
    TG_CHECK(call(2));
    TG_TRY(const std::vector<CollectiveTimes> before, session.collectiveTimes());
    const Stopwatch watch;
    TG_CHECK(call(options.repetitions));
    Measured out;
    out.milliseconds = watch.milliseconds() / options.repetitions;
    TG_TRY(out.collectives, session.collectiveTimes());
    for (size_t i = 0; i < before.size(); ++i) {
      CollectiveTimes& its = out.collectives[i];
      its.times -= before[i].times;
      its.toHost -= before[i].toHost;
      its.exchange -= before[i].exchange;
      its.toDevice -= before[i].toDevice;
      its.waited -= before[i].waited;
    }
    return out;
  }

  Result<int> run(CLI::App& app, const Arguments&) override {
    if (model.device == "interp")
      return usageError("profile times kernels on a Vulkan device; --device=interp has none");
    const std::vector<std::string> read = filesRead(model);
    TG_CHECK(withCode(
        exitUsage,
        notOneFile({{"--trace", trace}, {"--roofline", roofline}, {"--emit-module", model.emitModule}})));
    TG_CHECK(withCode(exitUsage, mayReplace("--trace", trace, beginsTrace, read)));
    TG_CHECK(withCode(exitUsage, mayReplace("--roofline", roofline, beginsPage, read)));
    TG_TRY(std::shared_ptr<collective::Engine> joined, joinRanks(rankFlags));
    if (joined) return runRanks(app, std::move(joined));
    const std::string given = model.file;
    Inputs inputs;
    TG_TRY(const OpenModel opened, open(app, inputs));
    TG_TRY(const Profile profile, withCode(exitDevice, opened.session->profile(function, inputs, options)));
    TG_TRY(const Ceilings ceilings, withCode(exitDevice, measureCeilings(opened.session->device())));
    const SessionInfo info = opened.session->info();
    const ProfileSubject subject{given == "-" ? "standard input" : given, info.device, info.driver};
    if (json)
      fmt::print("{}", toJson(profile, ceilings, subject));
    else
      print(profile, ceilings, subject);
    // Write files after printing the results, which are then shown even if a file cannot be written.
    TG_CHECK(writeFiles(profile, ceilings, subject));
    for (const std::string* path : {&trace, &roofline})
      if (!json && !path->empty()) fmt::print("wrote {}\n", *path);
    return exitOk;
  }

  void print(const Profile& profile, const Ceilings& ceilings, const ProfileSubject& subject) const {
    fmt::print("@{} of {} on {}\n", function, subject.model, subject.device);
    if (profile.parts > 1)
      fmt::print("a call runs {} parts of its batch; kernels and commands are those of the first\n",
                 profile.parts);
    printCeilings(ceilings);
    const std::vector<ProfiledKernel> kernels = byKernel(profile);
    printTable(kernels, ceilings);
    const bool tells = std::ranges::any_of(
        kernels, [](const ProfiledKernel& kernel) { return !kernel.statistics.told.empty(); });
    if (model.statistics && !tells) fmt::print("{}\n", kNoStatistics);
    printTotals(profile);
  }
};

}  // namespace

std::unique_ptr<Verb> makeProfile() { return std::make_unique<ProfileVerb>(); }

}  // namespace tg
