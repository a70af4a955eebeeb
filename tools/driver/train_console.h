// SPDX-License-Identifier: Apache-2.0
// The output of tg-run train during training: lines, a progress bar, log.txt, metrics, and the run's page.
#pragma once

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>

#include "runtime/train/metrics.h"
#include "runtime/train/samples.h"
#include "runtime/train/trainer.h"
#include "tools/driver/train_flags.h"
#include "tools/driver/train_open.h"

namespace tg {

class TrainConsole : public TrainObserver {
 public:
  /// Opens log.txt and the metrics if the run has a folder. `training` must outlive the console.
  static Result<std::unique_ptr<TrainConsole>> open(const TrainFlags& flags, const OpenTraining& training);
  ~TrainConsole() override;

  /// Prints a line on standard output and in log.txt.
  void line(const std::string& text);
  template <class First, class... Rest>
  void line(fmt::format_string<First, Rest...> format, First&& first, Rest&&... rest) {
    line(fmt::format(format, std::forward<First>(first), std::forward<Rest>(rest)...));
  }
  void header(const ModelFlags& model);
  /// Removes the progress bar, before something else writes to the terminal.
  void eraseBar();
  /// Called after the last step: writes the page.
  void finish();
  /// Takes the result of writing a file that the run appends to. After the first error, which `lost` returns, the
  /// console asks to stop, so that the progress is saved.
  void wrote(const Result<void>& result);
  const std::string& lost() const { return lost_; }

  /// The console asks `control` to stop if standard output or a file of the run cannot be written any more.
  void begin(const Trainer& trainer, TrainControl& control);
  /// Before the first step: generates the text that a stop interrupted.
  Result<void> makeUp();
  bool wantsSession(int64_t step) const override { return samplesAt(step); }
  Result<void> onStep(const StepResult& step) override;
  Result<void> onEval(const EvalResult& eval) override;
  void onSkip(const StepResult& step, const std::string& why, bool updated) override;
  void onSave(const std::string& path, int64_t step) override;
  void onWait(double seconds) override;
  void onNote(const std::string& text) override { line(text); }

 private:
  using Clock = std::chrono::steady_clock;
  TrainConsole(const TrainFlags& flags, const OpenTraining& training) : flags_(flags), training_(training) {}
  Result<void> record(int64_t step, std::vector<std::pair<std::string, double>> values);
  Result<void> recordStep(const StepResult& step, double milliseconds, double itemsPerSecond);
  Result<void> show(const StepResult& step);
  bool samplesAt(int64_t step) const { return training_.options.due(step, flags_.sampleEvery); }
  Result<void> sample(int64_t step);
  std::string stepLine(const StepResult& step, double milliseconds, double itemsPerSecond) const;
  double secondsLeft(int64_t step) const;
  /// The next line gives the mean time of the steps after this one, from now on.
  void countFrom(int64_t step) { logged_ = Clock::now(), loggedStep_ = step; }
  void drawBar(const StepResult& step);
  void refreshPage(bool now);

  const TrainFlags& flags_;
  const OpenTraining& training_;
  const Trainer* trainer_ = nullptr;
  TrainControl* control_ = nullptr;
  std::FILE* log_ = nullptr;
  std::unique_ptr<MetricsWriter> metrics_;
  std::unique_ptr<SampleLog> samples_;
  bool lines_ = true, bar_ = false, drawn_ = false;
  int64_t first_ = 0, loggedStep_ = 0;
  Clock::time_point start_, logged_, afterFirst_, barAt_, pageAt_;
  double waited_ = 0;       ///< seconds of waiting for checkpoints since the last row
  double pageSeconds_ = 0;  ///< seconds that the last page took
  bool pageFailed_ = false;
  std::string lost_;  ///< why a file could not be written
};

/// For example `0:01:05`.
std::string duration(double seconds);

}  // namespace tg
