// tg-run train: steps on data, a line for each few, a folder that keeps all of it.
#include <cstdio>

#include <fmt/format.h>

#include "runtime/data/safetensors.h"
#include "runtime/train/run_dir.h"
#include "runtime/train/run_lock.h"
#include "tools/driver/signals.h"
#include "tools/driver/train_console.h"
#include "tools/driver/train_open.h"

namespace tg {

namespace {

std::string commandOf(const Arguments& args) {
  std::string command = "tg-run train";
  for (const std::string& arg : args) command += " " + shellWord(arg);
  return command;
}

Result<void> writeParams(Session& session, const std::string& path) {
  if (path.empty()) return {};
  Safetensors file;
  TG_TRY(file.tensors, session.downloadParams());
  return writeSafetensors(path, file);
}

struct Train : Verb {
  ModelFlags model;
  TrainFlags flags;

  void describe(CLI::App& app) override {
    app.description("Runs steps of @train on data and keeps the run in a folder. Ctrl-C finishes the steps "
                    "under way, saves and prints the command that goes on; SIGUSR1 saves and goes on.");
    addModelFlags(app, model);
    addTrainFlags(app, flags);
  }

  int run(CLI::App& app, const Arguments& args) override {
    if (auto good = checkTrainFlags(model, flags); !good) return report(app, exitUsage, good.error());
    auto resume = resumedRun(flags);
    if (!resume) return report(app, exitInput, resume.error());
    if (!resume->empty() && app.count("--config") == 0)
      if (auto exit = readConfig(app, args, *resume)) return *exit;
    OpenTraining training;
    if (int code = openTraining(app, model, flags, *resume, training)) return code;
    if (app.count("--lr")) {
      auto set = training.model.session->setLearningRate(flags.lr);
      if (!set) return report(app, exitInput, set.error());
      training.schedule = fmt::format("constant({}) by --lr", flags.lr);
    }
    if (flags.dryRun) return dryRun(app, training);
    if (auto made = makeRunDir(app, commandOf(args), training); !made)
      return report(app, exitInput, made.error());
    if (training.options.runDir.empty()) return go(app, training);
    auto lock = RunLock::take(training.options.runDir);
    if (!lock) return report(app, exitInput, lock.error());
    if (training.resumed)
      if (auto again = reopenRunDir(training); !again) return report(app, exitInput, again.error());
    return go(app, training);
  }

 private:
  /// The options the run was started with; those typed now win.
  std::optional<int> readConfig(CLI::App& app, const Arguments& args, const std::string& resume) {
    Arguments all = args;
    all.push_back("--config=" + RunDir{runOf(resume)}.config());
    return parseVerb(app, all);
  }

  /// Everything but the steps: the data of the first one is gathered too.
  int dryRun(const CLI::App& app, OpenTraining& training) {
    training.options.runDir.clear();
    auto console = TrainConsole::open(flags, training);
    if (!console) return report(app, exitInput, console.error());
    auto batch = training.feed->batch(training.state.step + 1);
    if (!batch) return report(app, exitInput, batch.error());
    for (const std::string& note : training.notes) fmt::print(stderr, "{}\n", note);
    (*console)->header(model);
    fmt::print("dry run: {} steps would follow; nothing was written\n",
               training.options.steps - training.state.step);
    return exitOk;
  }

  int go(const CLI::App& app, OpenTraining& training) {
    auto opened = TrainConsole::open(flags, training);
    if (!opened) return report(app, exitInput, opened.error());
    TrainConsole& console = **opened;
    for (const std::string& note : training.notes) fmt::print(stderr, "{}\n", note);
    console.header(model);
    Session& session = *training.model.session;
    Trainer trainer(session, *training.feed, training.options, training.state);
    console.begin(trainer);
    TrainControl control;
    TrainSignals signals(control);
    auto summary = trainer.run(console, control);
    console.eraseBar();
    if (!summary) {
      int code = trainer.sessionFailed() && session.device() ? exitDevice : exitInput;
      report(app, code, summary.error());
      return failed(training, code);
    }
    if (auto finished = console.finish(); !finished) return report(app, exitInput, finished.error());
    return conclude(app, training, console, *summary);
  }

  /// What of the run is safe after an error.
  static int failed(const OpenTraining& training, int code) {
    const std::string& dir = training.options.runDir;
    if (dir.empty()) return code;
    auto latest = latestCheckpoint(dir);
    if (latest && latest->good)
      fmt::print(stderr, "the last good checkpoint is {}. Resume: tg-run train --resume={}\n",
                 latest->good->path, shellWord(dir));
    return code;
  }

  int conclude(const CLI::App& app, OpenTraining& training, TrainConsole& console,
               const TrainSummary& summary) {
    if (summary.end == TrainEnd::notFinite) {
      report(app, exitNumeric,
             fmt::format("the loss is {} at step {}; the parameters of this step are not saved",
                         summary.lastLoss, summary.step));
      return failed(training, exitNumeric);
    }
    if (summary.meanOf)
      console.line(fmt::format("{} steps in {:.1f} s | mean loss of the last {} steps {:.4f}",
                               summary.step - summary.firstStep, summary.seconds, summary.meanOf,
                               summary.meanLoss));
    else
      console.line(fmt::format("no step is left of {}", training.options.steps));
    if (auto saved = writeParams(*training.model.session, flags.out); !saved)
      return report(app, exitInput, saved.error());
    if (!flags.out.empty()) console.line(fmt::format("saved {}", flags.out));
    if (summary.end == TrainEnd::done) return exitOk;
    const std::string& dir = training.options.runDir;
    std::string why = summary.end == TrainEnd::outOfTime ? "out of time" : "interrupted";
    if (dir.empty())
      console.line(fmt::format("{} at step {}; nothing is kept: --run-dir=none", why, summary.step));
    else
      console.line(
          fmt::format("{} at step {}. Resume: tg-run train --resume={}", why, summary.step, shellWord(dir)));
    return summary.end == TrainEnd::outOfTime ? exitOk : 128 + TrainSignals::stoppedBy();
  }
};

}  // namespace

std::unique_ptr<Verb> makeTrain() { return std::make_unique<Train>(); }

}  // namespace tg
