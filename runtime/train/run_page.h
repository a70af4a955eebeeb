// SPDX-License-Identifier: Apache-2.0
// A page about a run: one HTML file with data, style and script inside. It needs no network and no other file.
//
// It draws metrics.jsonl as curves, and shows the other files of a run directory: plan.json (memory at the peak,
// kernels), ranks.json (times of collectives), samples.jsonl, config.toml, env.json. Missing files are left out; files
// that cannot be parsed are errors that name them. A curve has at most kCurvePoints points: of a longer one the page
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

/// The text of RunSummary::owed if the last checkpoint is missing or damaged.
std::string checkpointOwed(int64_t step);

/// The state of a run: a process holds its lock; its last step and what follows it are done; or neither.
enum class RunState : uint8_t { running, finished, stopped };
std::string_view name(RunState state);

/// The progress and results of a run.
struct RunSummary {
  std::string name;  ///< name of the run directory
  RunState state = RunState::stopped;
  std::string owed;   ///< of a stopped run that has all its rows: what remains to be done; else ""
  int64_t step = 0;   ///< of the last row
  int64_t steps = 0;  ///< planned steps, from env.json or else config.toml; 0 if unknown
  double time = 0;    ///< seconds of training
  std::optional<double> loss, valLoss, bestValLoss;
  int64_t bestStep = 0;
  std::optional<double> itemsPerSecond;  ///< median of the last rows that have it
  std::optional<double> secondsPerStep;  ///< over the last rows, including evaluations
  std::optional<double> eta;             ///< in seconds
  /// The lines of config.toml as `option` and `value`, in the file's order, and then `model.tgir` with its hash, since
  /// that file may be edited between two runs. Empty without a config.toml.
  std::vector<std::pair<std::string, std::string>> options;
};

/// Computes a summary from rows that are added one by one.
class RunSummarizer {
 public:
  void add(const MetricRow& row);
  /// `steps` is the number of planned steps; 0 if unknown.
  RunSummary finish(const std::string& name, int64_t steps) const;

 private:
  RunSummary summary_;
  std::deque<double> rates_;                       ///< the last finite items_per_s
  std::deque<std::pair<int64_t, double>> recent_;  ///< step and time of the last rows
};

/// The run directory for `path`: the path itself, or the run of a checkpoint directory or of a file in it. The error
/// says what is missing.
Result<std::string> findRun(const std::string& path);

/// The runs for `path`: if it is a folder that is not a run itself, the runs in it, sorted by name; otherwise the run
/// that findRun finds.
Result<std::vector<std::string>> findRuns(const std::string& path);
/// The name of each run's folder, or its path as given if two have the same name.
std::vector<std::string> runNames(const std::vector<std::string>& runDirs);

/// The options in which these runs differ, except for those that say where a run is stored.
std::vector<std::string> differingOptions(const std::vector<RunSummary>& runs);

/// The summary of a run directory, which may not have any rows yet.
Result<RunSummary> summarizeRun(const std::string& runDir);

/// Writes runDir/index.html atomically. For a running training, `dueSeconds` is the time until the next page: the page
/// then says that the run goes on and reloads itself, and if no newer page comes for a while it says that instead. The
/// last call of a run passes nothing.
Result<void> writeRunPage(const std::string& runDir, std::optional<double> dueSeconds = {});

/// A page that compares runs. A run without metrics is an error.
Result<std::string> plotPage(const std::vector<std::string>& runDirs);

/// A curve for the page. `mean` is empty unless points were left out; then it has the mean of the values in each
/// point's bucket, with which smoothing starts.
struct Curve {
  std::vector<int64_t> steps;
  std::vector<double> times, values, mean;
};

/// Thins a curve out to kCurvePoints points while they are added, so that the memory does not depend on the length of
/// the run.
class CurveThinner {
 public:
  void add(int64_t step, double time, double value);
  Curve finish() const;

 private:
  struct Point {
    int64_t step = 0;
    double time = 0, value = 0;
  };
  /// What is kept of consecutive points: the least, the largest, and the first that is not finite.
  struct Bucket {
    std::optional<Point> low, high, broken;
    double sum = 0;  ///< of the finite values
    int64_t finite = 0, count = 0;
    void add(const Point& point);
    void add(const Bucket& next);
  };
  static void put(Curve& curve, const Bucket& bucket);

  std::vector<Point> all_;       ///< used while there are few enough to show them all
  std::vector<Bucket> buckets_;  ///< each_ points in each; the last may have fewer
  int64_t each_ = 1;
  Point last_;
};

}  // namespace tg
