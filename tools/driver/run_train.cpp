// SPDX-License-Identifier: Apache-2.0
// tg-run train: runs steps, prints progress, and stores the run in a folder.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>

#include <fmt/format.h>

#include "ir/file_io.h"
#include "ir/text.h"
#include "runtime/data/safetensors.h"
#include "runtime/train/run_dir.h"
#include "tools/driver/run_config.h"
#include "tools/driver/signals.h"
#include "tools/driver/streams.h"
#include "tools/driver/train_console.h"
#include "tools/driver/train_folder.h"
#include "tools/driver/train_open.h"

namespace tg {

namespace {

namespace fs = std::filesystem;

std::string commandOf(const Arguments& args) {
  std::string command = "tg-run train";
  for (const std::string& arg : args) command += " " + shellWord(arg);
  return command;
}

Result<void> writeParams(const OpenTraining& training, const std::string& path) {
  if (path.empty()) return {};
  return writeSafetensors(path, training.model.session->tensors(ItemKind::param),
                          paramsMetadata(training.state));
}

struct Train : Verb {
  ModelFlags model;
  TrainFlags flags;

  void describe(CLI::App& app) override {
    app.description("Runs steps of @train on data and keeps the run in a folder. Ctrl-C finishes the running "
                    "steps, saves, and prints the command that continues; SIGUSR1 saves and continues.");
    addModelFlags(app, model);
    addQuietFlag(app, model, "print only errors and warnings; the run's log.txt has the other lines");
    addTrainFlags(app, flags);
  }

  Result<int> run(CLI::App& app, const Arguments& args) override {
    TrainSignals::expectCheckpoints();
    TG_TRY(model.ranks, joinRanks(flags.ranks));
    model.localRank = localRank();
    if (model.ranks)
      if (int code = initGpuCollectives(app, flags.ranks, model)) return code;
    OpenTraining training;
    TG_TRY(const int code, model.ranks ? prepareTogether(app, training) : prepare(app, training));
    if (code != exitOk) return code;
    if (flags.dryRun) return model.firstRank() ? dryRun(training) : exitOk;
    if (auto taken = takeRunDir(app, commandOf(args), model, flags, training); !taken)
      return ended(app, taken.error());
    return go(app, training);
  }

 private:
  /// Does `prepare` and then compares the ranks. An error if one failed, or differs in what must be the same on all.
  Result<int> prepareTogether(CLI::App& app, OpenTraining& training) {
    model.notes = model.notes && model.firstRank();
    Result<int> ready = prepare(app, training);
    RankFacts facts;
    if (ready && *ready == exitOk) {
      if (auto gathered = factsOf(training, flags))
        facts = std::move(*gathered);
      else
        ready = withCode(exitDevice, gathered.takeError());
    }
    return compareRanks(app, *model.ranks, ready, facts);
  }

  /// The facts that must be equal on all ranks, so that they run the same steps with the same bits.
  static Result<RankFacts> factsOf(const OpenTraining& training, const TrainFlags& flags) {
    const TrainState& state = training.state;
    TG_TRY(const NamedArrays params, training.model.session->downloadParams());
    std::string hashes;
    for (const auto& [name, array] : params) hashes += textHash(asText(array.bytes));
    return RankFacts{{"its version", state.version},
                     {"its module", state.moduleHash},
                     {"its device", state.device},
                     {"its driver", state.driver},
                     {"the module compiled for its device", state.finalHash},
                     {"its seed", std::to_string(state.seed)},
                     {"its step", std::to_string(state.step)},
                     {"its steps in all", std::to_string(training.options.steps)},
                     {"its data", state.dataHash},
                     {"its --lr", flags.lr.empty() ? "none" : flags.lr},
                     {"its --on-nan", training.options.onNan == OnNan::skip ? "skip" : "stop"},
                     {"its --overfit-one-batch", flags.overfitOneBatch ? "on" : "off"},
                     {"its first parameters", textHash(hashes)}};
  }

  /// Checks, opens and compiles everything. Returns 0, or the exit code of parsing the run's options.
  Result<int> prepare(CLI::App& app, OpenTraining& training) {
    flags.quiet = !model.notes;
    TG_CHECK(withCode(exitUsage, checkTrainFlags(model, flags)));
    if (flags.runDir == "none" && app.count("--metrics") && configOf(app, "--metrics").empty())
      return usageError("--metrics: --run-dir=none keeps no files");
    TG_TRY(const std::string resume, resumedRun(flags));
    if (!resume.empty()) {
      TG_TRY(const std::optional<int> exit, goOn(app, resume, training));
      if (exit) return *exit;
    }
    TG_CHECK(openTraining(app, model, flags, runOf(resume), training));
    if (!flags.lr.empty()) {
      // Counted from the run's first step, so that a resumed run continues its schedule.
      Session& session = *training.model.session;
      TG_CHECK(session.setLearningRate(flags.lr, 0));
      if (training.rates > 1)
        training.notes.push_back(fmt::format("warning: --lr={} takes the place of {} rates: {}", flags.lr,
                                             training.rates, training.schedule));
      training.schedule = session.info().schedule + " by --lr";
    }
    return exitOk;
  }

  /// Opens a run to resume: its lock, its checkpoint, and its original options, which those of the command line
  /// override. Returns an exit code if parsing these failed.
  Result<std::optional<int>> goOn(CLI::App& app, const std::string& resume, OpenTraining& training) {
    const std::string run = runOf(resume);
    const TypedOptions typed = typedOptions(app);
    TG_CHECK(lockRun(resume, flags, model.firstRank(), training));
    // Before its first checkpoint, a run with --resume=auto uses the options typed now.
    if (!training.checkpoint && flags.resume == "auto") return std::optional<int>();
    TG_TRY(const Arguments words, overRunConfig(run, typed));
    TG_TRY(const std::optional<int> exit, parseVerb(app, words));
    if (exit) return exit;
    TG_CHECK(checkTrainFlags(model, flags));
    TG_CHECK(withCode(exitUsage,
                      checkOptions(run, typed, training.checkpoint ? &training.checkpoint->state : nullptr)));
    if (!typed.contains("FILE")) model.file = RunDir{run}.model();
    training.stepsTyped = typed.contains("steps") || typed.contains("epochs");
    if (training.checkpoint && app.count("--seed") == 0) model.seed = training.checkpoint->state.seed;
    flags.runDir = run;
    return std::optional<int>();
  }

  /// Does everything except the steps; reads the data of the first one.
  Result<int> dryRun(OpenTraining& training) {
    training.options.runDir.clear();
    TG_TRY(const auto console, TrainConsole::open(flags, training));
    TG_CHECK(training.feed->batch(training.state.step / training.options.stride + 1));
    tellNotes(training);
    console->header(model);
    fmt::print("dry run: {} would follow; nothing was written{}\n",
               countText(std::max<int64_t>(0, training.options.steps - training.state.step), "step"),
               model.emitModule.empty() ? "" : " but " + model.emitModule);
    return exitOk;
  }

  void tellNotes(const OpenTraining& training) const {
    for (const std::string& note : training.notes)
      if (model.notes || note.starts_with("warning: ")) fmt::print(stderr, "{}\n", note);
  }

  Result<int> go(const CLI::App& app, OpenTraining& training) {
    auto opened = TrainConsole::open(flags, training);
    if (!opened) return ended(app, opened.error());
    TrainConsole& console = **opened;
    if (model.firstRank()) tellNotes(training);
    if (model.firstRank()) console.header(model);
    if (model.ranks) console.line("{}, each on its rows of the batch", model.ranks->describe());
    Session& session = *training.model.session;
    Trainer trainer(session, *training.feed, training.options, training.state);
    TrainControl control;
    console.begin(trainer, control);
    auto signals = std::make_unique<TrainSignals>(control);
    if (auto made = console.makeUp(); !made) return ended(app, made.error());
    auto summary = trainer.run(console, control);
    console.eraseBar();
    if (!summary) {
      // If the folder is gone, report that as the reason for a failed write.
      auto there = training.lock ? training.lock->check() : Result<void>();
      Error error = withCode(trainer.sessionFailed() && session.device() ? exitDevice : exitInput,
                             there ? summary.takeError() : there.takeError());
      keepParams(trainer, training, error);
      if (!model.ranks) return failed(training, report(app, error));
      failed(training, error.exitCode());
      return endJob(app, *model.ranks, error);
    }
    console.wrote(writeCollectiveTimes(training, collectives_));
    console.finish();
    // Writing to a pipe waits for a reader, so restore the signals: one must be able to end this wait.
    if (std::error_code error; model.firstRank() && fs::is_fifo(flags.out, error)) {
      if (model.notes)
        fmt::print(stderr, "note: {} is a pipe, which is written when it is read\n", flags.out);
      signals.reset();
    }
    return conclude(app, training, console, *summary);
  }

  /// Ends the run with an error, and also the job if there are other ranks.
  Result<int> ended(const CLI::App& app, const Error& error) const {
    if (model.ranks) return endJob(app, *model.ranks, error);
    return error;
  }

  /// The cost of collectives in a step. It includes the compilation in the first step.
  static std::string trafficLine(collective::Traffic traffic, const std::vector<CollectiveTimes>& collectives,
                                 int64_t steps) {
    const double each = 1.0 / static_cast<double>(steps);
    // The engine's `waited` includes waiting for the device; that of a device collective does not.
    if (!collectives.empty()) traffic.waited = 0;
    for (const CollectiveTimes& collective : collectives) traffic.waited += collective.waited;
    return fmt::format("between ranks: {:.3f} MiB a step, {:.2f} ms in flight{}, {:.2f} ms of it waited for",
                       static_cast<double>(traffic.bytes) * each / (1 << 20), traffic.inFlight * 1e3 * each,
                       rateText(traffic.bytes, traffic.inFlight), traffic.waited * 1e3 * each);
  }

  static std::string rateText(int64_t bytes, double seconds) {
    return seconds > 0 ? fmt::format(" ({:.2f} GB/s)", static_cast<double>(bytes) / seconds * 1e-9) : "";
  }

  /// The cost of copies between the device and the host's staging buffers.
  static std::string copiesLine(const std::vector<CollectiveTimes>& collectives, int64_t steps) {
    int64_t toHostBytes = 0, toDeviceBytes = 0;
    double toHost = 0, toDevice = 0;
    for (const CollectiveTimes& each : collectives) {
      toHostBytes += each.toHostBytes * each.times;
      toDeviceBytes += each.toDeviceBytes * each.times;
      toHost += each.toHost;
      toDevice += each.toDevice;
    }
    const double ms = 1e3 / static_cast<double>(steps);
    return fmt::format("copies: {:.2f} ms a step to the host{}, {:.2f} ms back{}", toHost * ms,
                       rateText(toHostBytes, toHost), toDevice * ms, rateText(toDeviceBytes, toDevice));
  }

  /// Writes ranks.json, which the run's page shows.
  static Result<void> writeCollectiveTimes(OpenTraining& training,
                                           std::vector<CollectiveTimes>& collectives) {
    TG_TRY(collectives, training.model.session->collectiveTimes());
    const std::string& dir = training.options.runDir;
    if (dir.empty() || collectives.empty()) return {};
    return writeFile(RunDir{dir}.ranks(), toJson(collectives));
  }

  /// Writes --out after an error too, unless it is one of the device: if the run's disk is full, what was learned is
  /// lost otherwise. A note on the error says whether that was possible.
  void keepParams(Trainer& trainer, const OpenTraining& training, Error& error) const {
    const bool learned = trainer.state().step > training.state.step && !trainer.sessionFailed();
    if (flags.out.empty() || !learned || !model.firstRank()) return;
    auto saved = [&]() -> Result<void> {
      TG_TRY(const std::string wrong, trainer.notFiniteParam());
      if (!wrong.empty()) return fail("{} is not written: parameter {}", flags.out, wrong);
      return writeParams(training, flags.out);
    }();
    error.addNote(nullptr, saved ? fmt::format("saved {}", flags.out) : saved.error().message());
  }

  /// Prints the last good checkpoint after an error.
  static int failed(const OpenTraining& training, int code) {
    const std::string& dir = training.options.runDir;
    if (dir.empty()) return code;
    auto latest = latestCheckpoint(dir);
    if (latest && latest->good)
      fmt::print(stderr, "the last good checkpoint is {}. Resume: tg-run train --resume={}\n",
                 latest->good->path, shellWord(dir));
    return code;
  }

  Result<int> conclude(const CLI::App& app, OpenTraining& training, TrainConsole& console,
                       const TrainSummary& summary) {
    // Only rank 0 prints.
    if (!model.firstRank()) return summary.end == TrainEnd::notFinite ? exitNumeric : exitOk;
    if (summary.end == TrainEnd::notFinite) {
      Error error =
          withCode(exitNumeric, fail(summary.fault + "; the parameters of this step are not saved"));
      for (const std::string& note : summary.faultNotes) error.addNote(nullptr, note);
      return failed(training, report(app, error));
    }
    if (summary.meanOf)
      console.line("{} in {:.1f} s | mean loss of the last {} {:.4f}",
                   countText(summary.step - summary.firstStep, "step"), summary.seconds,
                   countText(summary.meanOf, "step"), summary.meanLoss);
    else if (!summary.leftOut && summary.step >= training.options.steps)
      console.line("no step is left of {}", training.options.steps);
    if (const int64_t steps = (summary.step - summary.firstStep) / training.options.stride;
        model.ranks && steps > 0) {
      console.line(trafficLine(model.ranks->traffic(), collectives_, steps));
      if (!collectives_.empty() && !model.ranks->nccl()) console.line(copiesLine(collectives_, steps));
    }
    if (summary.leftOut) console.line(countText(summary.leftOut, "step was left out", "steps were left out"));
    if (summary.leftOut && !summary.meanOf)
      fmt::print(stderr,
                 "warning: all steps after step {} were left out, the parameters are as before them\n",
                 summary.firstStep);
    TG_CHECK(writeParams(training, flags.out));
    if (!flags.out.empty()) console.line("saved {}", flags.out);
    if (summary.end == TrainEnd::done && console.lost().empty()) return exitOk;
    const std::string& dir = training.options.runDir;
    if (const std::string lost = console.lost().empty() ? lostOutput() : console.lost(); !lost.empty())
      return fail(dir.empty() ? lost
                              : fmt::format("{}; the run ends at step {}. Resume: tg-run train --resume={}",
                                            lost, summary.step, shellWord(dir)));
    const std::string why = summary.end == TrainEnd::outOfTime ? "out of time" : "interrupted";
    const char* owed = summary.evaluationOwed ? ", before its evaluation was done" : "";
    if (dir.empty())
      console.line("{} at step {}{}; nothing is kept: --run-dir=none", why, summary.step, owed);
    else
      console.line("{} at step {}{}{}. Resume: tg-run train --resume={}", why, summary.step, owed,
                   summary.checkpoint.empty() || summary.checkpointStep == summary.step
                       ? ""
                       : fmt::format(", saved at step {}", summary.checkpointStep),
                   shellWord(dir));
    if (summary.end == TrainEnd::outOfTime) return exitOk;
    const int signal = TrainSignals::stoppedBy();  // 0 if another rank was told to stop
    return 128 + (signal ? signal : SIGTERM);
  }

  std::vector<CollectiveTimes> collectives_;  ///< read when the steps are done
};

}  // namespace

std::unique_ptr<Verb> makeTrain() { return std::make_unique<Train>(); }

}  // namespace tg
