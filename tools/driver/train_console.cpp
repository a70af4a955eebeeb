// SPDX-License-Identifier: Apache-2.0
#include "tools/driver/train_console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "ir/stopwatch.h"
#include "runtime/train/evaluation.h"
#include "runtime/train/run_dir.h"
#include "runtime/train/run_page.h"
#include "tools/driver/signals.h"
#include "tools/driver/streams.h"

namespace tg {

namespace {

constexpr double kPageSeconds = 5;    // least time between two pages of a running training
constexpr double kPageShare = 0.005;  // largest fraction of the time to spend on pages
constexpr auto kBarEvery = std::chrono::milliseconds(100);
constexpr size_t kBarWidth = 24, kBarLeast = 4;  // columns between its ends

std::string megabytes(int64_t bytes) {
  return fmt::format("{:.2f} MiB", static_cast<double>(bytes) / (1 << 20));
}

/// Progress bars are for terminals; logs and CI get lines.
bool wantsBar(const std::string& progress) {
  if (progress != "auto") return progress == "bar";
  return ::isatty(STDERR_FILENO) && !std::getenv("CI");
}

/// The columns that a bar may use. The last column stays free, because some terminals begin a new line after it.
size_t barColumns() {
  winsize size = {};
  const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col - 1U : 79U;
}

void warnDamaged(const DamagedRows& rows) {
  if (rows.count) fmt::print(stderr, "warning: {}\n", rows.text());
}

}  // namespace

std::string duration(double seconds) {
  auto whole = static_cast<int64_t>(std::llround(seconds));
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

Result<std::unique_ptr<TrainConsole>> TrainConsole::open(const TrainFlags& flags,
                                                         const OpenTraining& training) {
  std::unique_ptr<TrainConsole> console(new TrainConsole(flags, training));
  console->lines_ = flags.progress != "none";
  console->bar_ = !flags.quiet && wantsBar(flags.progress);
  const std::string& dir = training.options.runDir;
  if (dir.empty()) return console;
  std::string path = RunDir{dir}.log();
  if (flags.sampleEvery) {
    TG_TRY(console->samples_, SampleLog::open(dir, training.resumedStep));
  }
  console->log_ = std::fopen(path.c_str(), training.resumed ? "a" : "w");
  if (!console->log_) return fail("cannot write {}: {}", path, std::strerror(errno));
  TG_TRY(auto formats, parseMetricsFormats(flags.metrics));
  TG_TRY(console->metrics_,
         MetricsWriter::open(dir, formats, training.resumedStep, training.state.evaluationOwed));
  warnDamaged(console->metrics_->damaged());
  if (console->samples_) warnDamaged(console->samples_->damaged());
  return console;
}

TrainConsole::~TrainConsole() {
  eraseBar();
  if (log_) std::fclose(log_);
}

void TrainConsole::line(const std::string& text) {
  eraseBar();
  if (!flags_.quiet) fmt::print("{}\n", text);
  // Nobody can follow the run any more, so stop it; its progress is saved.
  if (!lostOutput().empty() && control_) control_->stop = true;
  if (!log_) return;
  // Errors of the log are ignored: a full disk is reported when a checkpoint cannot be written.
  std::fputs((text + "\n").c_str(), log_);
  std::fflush(log_);
}

void TrainConsole::header(const ModelFlags& model) {
  const OpenModel& open = training_.model;
  SessionInfo info = open.session->info();
  line("device {} ({})", info.device, info.why);
  if (!info.driver.empty()) line("driver {}", info.driver);
  auto kernels = open.session->kernelCount(kTrain);
  line("seed {} | parameters {} | arena {} (persistent {}, io {}, transient {}, lower bound {}) | kernels {} "
       "| compile {:.0f} ms",
       model.seed, info.parameters, megabytes(info.persistentBytes + info.ioBytes + info.arenaBytes),
       megabytes(info.persistentBytes), megabytes(info.ioBytes), megabytes(info.arenaBytes),
       megabytes(info.lowerBoundBytes), kernels ? *kernels : 0, open.compileMs());
  for (const std::string& source : training_.feed->describe()) line(source);
  if (!training_.schedule.empty()) line("lr {}", training_.schedule);
  if (flags_.dryRun) return;
  line(training_.options.runDir.empty() ? "nothing is kept: --run-dir=none"
                                        : fmt::format("run {}", training_.options.runDir));
}

void TrainConsole::begin(const Trainer& trainer, TrainControl& control) {
  trainer_ = &trainer;
  control_ = &control;
  start_ = logged_ = afterFirst_ = pageAt_ = Clock::now();
  first_ = loggedStep_ = training_.state.step;
}

double TrainConsole::secondsLeft(int64_t step) const {
  const int64_t stride = training_.options.stride, second = first_ + stride;
  auto now = Clock::now();
  double each = step == second ? inSeconds(now - start_) / static_cast<double>(stride)
                               : inSeconds(now - afterFirst_) / static_cast<double>(step - second);
  return each * static_cast<double>(training_.options.steps - step);
}

std::string TrainConsole::stepLine(const StepResult& step, double milliseconds, double itemsPerSecond) const {
  std::string norm;
  if (const HostArray* value = step.result("grad_norm")) norm = fmt::format(" | norm {:.4g}", value->at(0));
  // Steps that only sum gradients have no rate.
  const std::string rate = step.applied ? fmt::format(" | lr {:.2e}", step.learningRate) : "";
  const int digits = milliseconds < 1 ? 3 : milliseconds < 10 ? 2 : 1;
  return fmt::format("step {}/{} | loss {:.4f}{}{} | {:.{}f} ms | {:.0f} {}/s | eta {}", step.step,
                     training_.options.steps, step.loss, norm, rate, milliseconds, digits, itemsPerSecond,
                     training_.feed->unit(), duration(secondsLeft(step.step)));
}

Result<void> TrainConsole::record(int64_t step, std::vector<std::pair<std::string, double>> values) {
  if (!metrics_) return {};
  if (training_.options.lock) TG_CHECK(training_.options.lock->check());
  wrote(metrics_->add({step, trainer_->secondsSoFar(), std::move(values)}));
  wrote(metrics_->flush());
  return {};
}

void TrainConsole::wrote(const Result<void>& result) {
  if (result || !lost_.empty()) return;
  lost_ = result.error().message();
  control_->stop = true;
}

/// The column of one of @eval's results behind the loss.
static std::string evalColumn(const std::string& name) { return "val_" + (name == "loss" ? "loss_2" : name); }

Result<void> TrainConsole::recordStep(const StepResult& step, double milliseconds, double itemsPerSecond) {
  std::vector<std::pair<std::string, double>> values = {{"loss", step.loss}};
  // A result whose name another column has gets a number behind it.
  std::vector<std::string> taken = {"step", "time", "loss", "lr", "ms", "items_per_s", "save_ms", "val_loss"};
  if (const Item* eval = training_.model.source->func(kEval))
    for (const std::string& name : otherResults(*eval)) taken.push_back(evalColumn(name));
  const HostArray* norm = step.result("grad_norm");
  if (norm) taken.emplace_back("norm");
  for (size_t i = 1; i < step.results.size(); ++i) {
    const auto& [name, value] = step.results[i];
    if (value.elements() != 1) continue;
    std::string column = &value == norm ? "norm" : name;
    for (int number = 2; &value != norm && contains(taken, column); ++number)
      column = fmt::format("{}_{}", name, number);
    taken.push_back(column);
    values.emplace_back(column, value.at(0));
  }
  if (step.applied) values.emplace_back("lr", step.learningRate);
  values.emplace_back("ms", milliseconds);
  values.emplace_back("items_per_s", itemsPerSecond);
  if (waited_ > 0) values.emplace_back("save_ms", std::exchange(waited_, 0) * 1e3);
  return record(step.step, std::move(values));
}

Result<void> TrainConsole::show(const StepResult& step) {
  const TrainerOptions& options = training_.options;
  const bool first = step.step == first_ + options.stride;
  // The rows are the same as in a run that was never stopped. A line is also printed when a resumed run begins.
  const bool recorded =
      step.step == options.stride || options.due(step.step, flags_.logEvery) || step.step == options.steps;
  if (bar_) drawBar(step);
  if (!recorded && !first) return {};
  double seconds = inSeconds(Clock::now() - logged_);
  auto steps = static_cast<double>(step.step - loggedStep_);
  double milliseconds = seconds * 1e3 / steps;
  double rate = steps * static_cast<double>(training_.feed->itemsPerStep()) /
                static_cast<double>(options.stride) / seconds;
  if (lines_) line(stepLine(step, milliseconds, rate));
  if (recorded) TG_CHECK(recordStep(step, milliseconds, rate));
  // The first step includes one-time work of drivers, so the remaining time is estimated from later steps.
  if (first) afterFirst_ = Clock::now();
  refreshPage(false);
  countFrom(step.step);
  return {};
}

Result<void> TrainConsole::onStep(const StepResult& step) {
  TG_CHECK(show(step));
  return samplesAt(step.step) ? sample(step.step) : Result<void>();
}

Result<void> TrainConsole::makeUp() {
  const bool owed = samples_ && samples_->owed() && samples_->owed() == first_;
  return owed && samplesAt(first_) ? sample(first_) : Result<void>();
}

/// Generates a text with the current model. Its time does not count for any step.
Result<void> TrainConsole::sample(int64_t step) {
  Sampler& sampler = *training_.sampler;
  std::string text;
  int64_t tokens = 0;
  // If the run is asked to stop, it does not wait for the rest of a text.
  TG_CHECK(sampler.run([&](const std::string& more) {
    text += more;
    ++tokens;
    return !control_->stop;
  }));
  const std::string& prompt = sampler.options().prompt;
  line("sample at step {}: {}{}", step, prompt, text);
  if (samples_) wrote(samples_->add(step, prompt, text, tokens == sampler.options().tokens));
  countFrom(step);
  return {};
}

Result<void> TrainConsole::onEval(const EvalResult& eval) {
  const std::string best =
      eval.bestLoss ? fmt::format(" (best {:.4f} @{})", *eval.bestLoss, eval.bestStep) : "";
  line("val loss {:.4f}{}{}", eval.loss, best, otherText(eval.others));
  std::vector<std::pair<std::string, double>> values = {{"val_loss", eval.loss}};
  for (const auto& [name, mean] : eval.others) values.emplace_back(evalColumn(name), mean);
  TG_CHECK(record(eval.step, std::move(values)));
  countFrom(eval.step);
  return {};
}

void TrainConsole::onSkip(const StepResult& step, const std::string& why, bool updated) {
  line("step {}/{} | loss {} | left out, {}: {}", step.step, training_.options.steps, step.loss,
       updated ? "the update is that of the other batches" : "parameters are as before it", why);
}

void TrainConsole::onSave(const std::string& path, int64_t) { line("saved {}", path); }

void TrainConsole::onWait(double seconds) {
  waited_ += seconds;
  countFrom(trainer_->state().step);
}

void TrainConsole::drawBar(const StepResult& step) {
  auto now = Clock::now();
  if (drawn_ && now - barAt_ < kBarEvery) return;
  barAt_ = now;
  drawn_ = true;
  int64_t total = std::max<int64_t>(training_.options.steps, 1);
  std::string text = fmt::format("{}/{} | loss {:.4f} | eta {}", step.step, training_.options.steps,
                                 step.loss, duration(secondsLeft(step.step)));
  // The bar gets the rest of the line; if that is too narrow, there is none.
  const size_t columns = barColumns();
  if (text.size() + kBarLeast + 3 <= columns) {
    const size_t width = std::min(kBarWidth, columns - text.size() - 3);
    const auto filled = static_cast<size_t>(step.step) * width / static_cast<size_t>(total);
    text = fmt::format("[{:<{}}] {}", std::string(filled, '='), width, text);
  }
  if (text.size() > columns) text.resize(columns);
  // Not after a signal: a second one may end the process and leave the bar on its line.
  if (TrainSignals::stoppedBy()) return;
  TrainSignals::barStands = true;
  fmt::print(stderr, "\r\x1b[K{}", text);
  std::fflush(stderr);
}

void TrainConsole::eraseBar() {
  if (!drawn_) return;
  TrainSignals::barStands = false;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
  drawn_ = false;
}

/// Writes the run's page. It is made from the run's files, so it may be late but is never wrong. If it cannot be
/// written, the run goes on.
void TrainConsole::refreshPage(bool now) {
  const std::string& dir = training_.options.runDir;
  if (dir.empty()) return;
  auto begin = Clock::now();
  double pause = std::max(kPageSeconds, pageSeconds_ / kPageShare);
  if (!now && inSeconds(begin - pageAt_) < pause) return;
  // A page is written together with a line, so distant lines, or an evaluation between two of them, delay it.
  std::optional<double> due;
  if (!now) due = std::max(pause, inSeconds(begin - pageAt_));
  auto written = writeRunPage(dir, due);
  pageAt_ = Clock::now();
  pageSeconds_ = inSeconds(pageAt_ - begin);
  if (written || pageFailed_) return;
  pageFailed_ = true;
  eraseBar();
  fmt::print(stderr, "warning: the run's page is left as it is: {}\n", written.error().message());
}

void TrainConsole::finish() {
  eraseBar();
  refreshPage(true);
}

}  // namespace tg
