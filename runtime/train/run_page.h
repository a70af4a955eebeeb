// SPDX-License-Identifier: Apache-2.0
// The page that shows a run: one HTML file with its data, style and script inside, which needs no network
// and no file beside it.
//
// It draws metrics.jsonl as curves and shows what else a run directory has: plan.json (memory at the peak,
// kernels), ranks.json (times of collectives), samples.jsonl, config.toml, env.json. Files that are missing are left out; those that cannot be
// understood are errors that name them. A curve has at most kCurvePoints points: of a longer one the page
// has the extremes of buckets, so that no spike is lost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/result.h"
#include "runtime/train/metrics.h"

namespace tg {

constexpr size_t kCurvePoints = 2000;

/// What RunSummary::owed says where the last checkpoint is missing or damaged.
std::string checkpointOwed(int64_t step);

/// Whether a run goes on: a process holds its lock, or its last step is done with what belongs behind it, or neither.
enum class RunState : uint8_t { running, finished, stopped };
std::string_view name(RunState state);

/// What a run has come to.
struct RunSummary {
  std::string name;  ///< of the run directory
  RunState state = RunState::stopped;
  std::string owed;   ///< of a stopped run whose rows are all there: what is still to be done; else ""
  int64_t step = 0;   ///< of the last row
  int64_t steps = 0;  ///< to be done, of env.json, else of config.toml; 0 where unknown
  double time = 0;    ///< seconds of training
  std::optional<double> loss, valLoss, bestValLoss;
  int64_t bestStep = 0;
  std::optional<double> itemsPerSecond;  ///< the median of the last rows that say it
  std::optional<double> secondsPerStep;  ///< over the last rows, evaluations included
  std::optional<double> eta;             ///< seconds
  /// What config.toml says, as `option` and `value` in the file's order, and behind them `model.tgir` with its hash,
  /// since a file may be edited between two runs; empty without one.
  std::vector<std::pair<std::string, std::string>> options;
};
RunSummary summarizeRun(const std::string& name, const std::vector<MetricRow>& rows, int64_t steps);

/// Makes a summary of rows that come one by one.
class RunSummarizer {
 public:
  void add(const MetricRow& row);
  /// `steps` are those to be done, 0 where unknown.
  RunSummary finish(const std::string& name, int64_t steps) const;

 private:
  RunSummary summary_;
  std::deque<double> rates_;                       ///< the last finite items_per_s
  std::deque<std::pair<int64_t, double>> recent_;  ///< step and time of the last rows
};

/// The directory of the run that `path` stands for: itself, or the run of a checkpoint directory or of a
/// file in one. An error says what is not there.
Result<std::string> findRun(const std::string& path);

/// The runs that `path` stands for: those that lie in a folder which is none itself, in the order of their
/// names, or the one that findRun finds.
Result<std::vector<std::string>> findRuns(const std::string& path);
/// The name of each run's folder, or its path as given where two have the same name.
std::vector<std::string> runNames(const std::vector<std::string>& runDirs);

/// The options that not all of these runs have alike, without those that say where a run is kept.
std::vector<std::string> differingOptions(const std::vector<RunSummary>& runs);

/// The summary of a run directory, which may have no rows yet.
Result<RunSummary> summarizeRun(const std::string& runDir);

/// Writes runDir/index.html, whole or not at all. That of a running training is told within how many seconds
/// the next one is due: it says that the run goes on and reloads itself, and when no newer page comes for a
/// while it says that instead. The last call of a run passes nothing.
Result<void> writeRunPage(const std::string& runDir, std::optional<double> dueSeconds = {});

/// A page that compares runs. One that has no metrics is an error.
Result<std::string> plotPage(const std::vector<std::string>& runDirs);

/// A curve for the page. `mean` is empty unless points were left out: then it is the mean of the values in
/// each point's bucket, which smoothing starts from.
struct Curve {
  std::vector<int64_t> steps;
  std::vector<double> times, values, mean;
};
/// The values of `key` over the rows that have it, at most kCurvePoints of them.
Curve curveOf(const std::vector<MetricRow>& rows, const std::string& key);

/// Thins a curve out while its points come, so that a run of any length takes the same memory.
class CurveThinner {
 public:
  void add(int64_t step, double time, double value);
  Curve finish() const;

 private:
  struct Point {
    int64_t step = 0;
    double time = 0, value = 0;
  };
  /// What is kept of points that follow one another: the least, the largest, the first that is not finite.
  struct Bucket {
    std::optional<Point> low, high, broken;
    double sum = 0;  ///< of the finite ones
    int64_t finite = 0, count = 0;
    void add(const Point& point);
    void add(const Bucket& next);
  };
  static void put(Curve& curve, const Bucket& bucket);

  std::vector<Point> all_;       ///< while there are few enough to show them all
  std::vector<Bucket> buckets_;  ///< of each_ points, the last of fewer
  int64_t each_ = 1;
  Point last_;
};

}  // namespace tg
