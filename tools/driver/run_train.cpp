// tg-run train: steps on data, a line for each few, parameters saved at the end.
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <deque>
#include <filesystem>

#include <fmt/format.h>

#include "ir/parser.h"
#include "runtime/train/feed.h"
#include "tools/driver/io.h"
#include "tools/driver/run_setup.h"
#include "tools/driver/train_checkpoint.h"

namespace tg {

namespace {

constexpr const char* kTrain = "train";
constexpr size_t kFinalSteps = 20;  // the loss reported at the end is the mean over these

struct TrainFlags {
  std::string data, out, runDir, resume;
  int64_t steps = 100, logEvery = 10;
  double lr = 0;
};

using Clock = std::chrono::steady_clock;
double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::atomic<int> interruptedBy = 0;

/// While alive the first SIGINT or SIGTERM is noted and the second one ends the process as usual.
class Interrupts {
 public:
  Interrupts() {
    for (int signal : {SIGINT, SIGTERM}) std::signal(signal, note);
  }
  ~Interrupts() {
    for (int signal : {SIGINT, SIGTERM}) std::signal(signal, SIG_DFL);
  }

 private:
  static void note(int signal) {
    interruptedBy = signal;
    std::signal(signal, SIG_DFL);
  }
};

std::string shellWord(const std::string& word) {
  bool plain =
      !word.empty() && word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                              "_-+./:=,@%") == std::string::npos;
  if (plain) return word;
  std::string quoted = "'";
  for (char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string resumeCommand(const Arguments& args, const std::string& file) {
  std::string command = "tg-run train";
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i] == "--resume")
      ++i;
    else if (!args[i].starts_with("--resume="))
      command += " " + shellWord(args[i]);
  }
  return command + " --resume=" + shellWord(file);
}

std::string duration(double seconds) {
  auto whole = static_cast<int64_t>(std::llround(seconds));
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string megabytes(int64_t bytes) {
  return fmt::format("{:.2f} MiB", static_cast<double>(bytes) / (1 << 20));
}

void printHeader(const OpenModel& open, const ModelFlags& model) {
  SessionInfo info = open.session->info();
  fmt::print("device {} ({})\n", info.device, info.why);
  if (!info.driver.empty()) fmt::print("driver {}\n", info.driver);
  auto kernels = open.session->kernelCount(kTrain);
  fmt::print("seed {} | parameters {} | arena {} (persistent {}, io {}, transient {}, lower bound {}) | "
             "kernels {} | "
             "compile {:.0f} ms\n",
             model.seed, info.parameters, megabytes(info.persistentBytes + info.ioBytes + info.arenaBytes),
             megabytes(info.persistentBytes), megabytes(info.ioBytes), megabytes(info.arenaBytes),
             megabytes(info.lowerBoundBytes), kernels ? *kernels : 0, open.compileMs());
}

class Training {
 public:
  Training(const CLI::App& app, const Arguments& args, const TrainFlags& flags, const ModelFlags& model,
           OpenModel open, std::unique_ptr<Feed> data)
      : app_(app), args_(args), flags_(flags), model_(model), open_(std::move(open)), data_(std::move(data)) {
  }

  int run() {
    Interrupts interrupts;
    start_ = logged_ = Clock::now();
    first_ = loggedStep_ = session().steps();
    while (session().steps() < flags_.steps && !interruptedBy) {
      auto inputs = data_->batch(session().steps() + 1);
      if (!inputs) return report(app_, exitInput, inputs.error());
      auto step = session().step(*inputs);
      if (!step) return report(app_, session().device() ? exitDevice : exitInput, step.error());
      last_.push_back(step->loss);
      if (last_.size() > kFinalSteps) last_.pop_front();
      bool shown =
          step->step == first_ + 1 || step->step % flags_.logEvery == 0 || step->step == flags_.steps;
      if (shown || !std::isfinite(step->loss)) printStep(*step);
      if (!std::isfinite(step->loss))
        return report(app_, exitNumeric,
                      fmt::format("the loss is {} at step {}; nothing is saved", step->loss, step->step));
    }
    return end();
  }

 private:
  Session& session() { return *open_.session; }

  double secondsLeft(int64_t step) const {
    bool first = step == first_ + 1;
    double each =
        first ? secondsSince(start_) : secondsSince(afterFirst_) / static_cast<double>(step - first_ - 1);
    return each * static_cast<double>(flags_.steps - step);
  }

  void printStep(const StepResult& step) {
    double seconds = secondsSince(logged_);
    auto steps = static_cast<double>(step.step - loggedStep_);
    std::string norm;
    for (const auto& [name, value] : step.results)
      if (name == "grad_norm") norm = fmt::format(" | norm {:.4g}", value.at(0));
    fmt::print("step {}/{} | loss {:.4f}{} | lr {:.2e} | {:.1f} ms | {:.0f} {}/s | eta {}\n", step.step,
               flags_.steps, step.loss, norm, step.learningRate, seconds * 1e3 / steps,
               steps * static_cast<double>(data_->itemsPerStep()) / seconds, data_->unit(),
               duration(secondsLeft(step.step)));
    std::fflush(stdout);
    // The first step pays for what drivers do once, so the time left is told from those after it.
    if (step.step == first_ + 1) afterFirst_ = Clock::now();
    logged_ = Clock::now();
    loggedStep_ = step.step;
  }

  int end() {
    if (!flags_.out.empty()) {
      auto saved = saveCheckpoint(flags_.out, session(), model_.seed, data_->vocabulary());
      if (!saved) return report(app_, exitInput, saved.error());
    }
    double mean = 0;
    for (double loss : last_) mean += loss / static_cast<double>(last_.size());
    if (!last_.empty())
      fmt::print("{} steps in {:.1f} s | mean loss of the last {} steps {:.4f}\n", session().steps() - first_,
                 secondsSince(start_), last_.size(), mean);
    if (!flags_.out.empty()) fmt::print("saved {}\n", flags_.out);
    if (!interruptedBy) return exitOk;
    if (flags_.out.empty())
      fmt::print("interrupted at step {}; nothing is saved: there is no --out\n", session().steps());
    else
      fmt::print("interrupted at step {}. Resume: {}\n", session().steps(), resumeCommand(args_, flags_.out));
    return 128 + interruptedBy;
  }

  const CLI::App& app_;
  const Arguments& args_;
  const TrainFlags& flags_;
  const ModelFlags& model_;
  OpenModel open_;
  std::unique_ptr<Feed> data_;
  Clock::time_point start_, logged_, afterFirst_;
  int64_t first_ = 0, loggedStep_ = 0;
  std::deque<double> last_;
};

/// The passes that make a module learn; none when it does already. Guessing them would choose the
/// optimizer for its author.
Result<std::string> pipelineOf(const Module& module, const ModelFlags& model) {
  if (!module.func(kTrain)) return fail(fmt::format("{} has no function @train", model.file));
  if (!model.pipeline.empty()) return model.pipeline;
  if (hasUpdate(module, kTrain)) return std::string();
  if (const Attr* own = find(module.attrs, "train_pipeline"); own && module.stage == Stage::tensor)
    return own->text;
  return fail(
      fmt::format("@train of {0} updates nothing, so it cannot learn. Append a gradient and an optimizer:\n"
                  "  tg-run train {0} --pipeline='append-grad,append-adam{{lr=1e-3}}' …\n"
                  "or write train_pipeline = \"append-grad,append-adam{{lr=1e-3}}\" on the module",
                  model.file));
}

/// Folder, model text and the name of the parameters' file.
Result<void> prepareRunDir(TrainFlags& flags, const Module& module) {
  if (flags.runDir.empty()) return {};
  std::error_code error;
  std::filesystem::create_directories(flags.runDir, error);
  if (error) return fail(fmt::format("cannot make {}: {}", flags.runDir, error.message()));
  if (flags.out.empty()) flags.out = flags.runDir + "/model.safetensors";
  return writeOutput(flags.runDir + "/model.tgir", print(module));
}

void addTrainFlags(CLI::App& app, TrainFlags& flags) {
  auto add = [&](const char* flag, const char* value, auto& into, const char* help) {
    return app.add_option(flag, into, help)->option_text(value)->group("Training");
  };
  add("--data", "DATA", flags.data, "text:FILE, tokens:FILE, or rows of files: 'x=@x.npy,y=@y.npy'");
  add("--steps", "N", flags.steps, "steps in all, those before --resume included (default 100)")
      ->check(CLI::PositiveNumber);
  add("--lr", "RATE", flags.lr, "learning rate instead of the module's schedule");
  add("--log-every", "N", flags.logEvery, "steps between lines (default 10)")->check(CLI::PositiveNumber);
  add("--out", "FILE", flags.out, "save parameters and optimizer state here (safetensors)");
  add("--run-dir", "DIR", flags.runDir, "keep the model and its parameters in a folder, for tg-run sample");
  add("--resume", "FILE", flags.resume, "go on from a file that --out wrote");
}

int open(const CLI::App& app, ModelFlags& model, TrainFlags& flags, OpenModel& opened,
         std::unique_ptr<Feed>& data) {
  std::unique_ptr<Module> module;
  if (int code = loadModule(app, model, module)) return code;
  auto pipeline = pipelineOf(*module, model);
  if (!pipeline) return report(app, exitInput, pipeline.error());
  model.pipeline = *pipeline;
  Checkpoint checkpoint;
  if (!flags.resume.empty()) {
    auto read = readCheckpoint(flags.resume);
    if (!read) return report(app, exitInput, read.error());
    checkpoint = std::move(*read);
    if (app.count("--seed") == 0) model.seed = checkpoint.seed;
  }
  FeedOptions feed;
  feed.train = flags.data;
  feed.seed = model.seed;
  auto source = openFeed(feed, *module->func(kTrain), nullptr);
  if (!source) return report(app, exitInput, source.error());
  data = std::move(*source);
  if (checkpoint.vocabulary && data->vocabulary() &&
      checkpoint.vocabulary->symbols() != data->vocabulary()->symbols())
    return report(app, exitInput,
                  fmt::format("the text has other characters than the one {} was trained on", flags.resume));
  if (auto ready = prepareRunDir(flags, *module); !ready) return report(app, exitInput, ready.error());
  if (int code = openModel(app, model, std::move(module), {kTrain}, opened)) return code;
  if (flags.resume.empty()) return exitOk;
  auto restored = restore(*opened.session, checkpoint, flags.resume);
  return restored ? exitOk : report(app, exitInput, restored.error());
}

struct Train : Verb {
  ModelFlags model;
  TrainFlags flags;

  void describe(CLI::App& app) override {
    app.description("Runs steps of @train on data. Ctrl-C finishes the step and saves.");
    addModelFlags(app, model);
    addTrainFlags(app, flags);
  }
  int run(CLI::App& app, const Arguments& args) override {
    OpenModel opened;
    std::unique_ptr<Feed> data;
    if (int code = open(app, model, flags, opened, data)) return code;
    if (app.count("--lr")) {
      auto set = opened.session->setLearningRate(flags.lr);
      if (!set) return report(app, exitInput, set.error());
    }
    printHeader(opened, model);
    if (flags.out.empty()) fmt::print("parameters are not saved: there is no --out\n");
    std::fflush(stdout);
    return Training(app, args, flags, model, std::move(opened), std::move(data)).run();
  }
};

}  // namespace

std::unique_ptr<Verb> makeTrain() { return std::make_unique<Train>(); }

}  // namespace tg
