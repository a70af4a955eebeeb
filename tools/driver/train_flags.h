// SPDX-License-Identifier: Apache-2.0
// The options of tg-run train.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/train/trainer.h"
#include "tools/driver/ranks.h"
#include "tools/driver/run_setup.h"

namespace tg {

struct TrainFlags {
  // Data.
  std::vector<std::string> data;  ///< bindings, or train=… and val=…
  double valFraction = 0;
  bool noShuffle = false;
  // Length.
  int64_t steps = 0, epochs = 0;  ///< 0 if not given
  int64_t microBatch = 0;         ///< rows of the batch to run at once; 0 means all
  std::string maxTime;
  // Logging and evaluation.
  int64_t logEvery = 10, evalEvery = 0, evalBatches = 0;
  std::string metrics = "jsonl", progress = "auto";
  int64_t sampleEvery = 0, sampleTokens = 200;
  std::string samplePrompt = "\n";
  // Files of the run.
  std::string runDir, out, ckptEvery, resume, initFrom, initExcept;
  int64_t keepLast = 3;
  bool keepBest = false;
  // Learning.
  std::string lr;
  std::string onNan = "stop";
  std::vector<std::string> set;
  bool overfitOneBatch = false, dryRun = false;
  bool quiet = false;  ///< nothing on standard output
  RankFlags ranks;
};

void addTrainFlags(CLI::App& app, TrainFlags& flags);

/// The value of `--ckpt-every`: a number of steps or a time. Exactly one of the two is above 0.
struct Interval {
  int64_t steps = 0;
  double seconds = 0;
};
/// Parses `100`, `90s`, `10m` or `2h`; a plain number means steps. Errors name the flag.
Result<Interval> parseInterval(const std::string& flag, const std::string& text);
/// The same for times only: a plain number means seconds.
Result<double> parseDuration(const std::string& flag, const std::string& text);

/// Whether a value of --data names data for evaluation: val=….
bool isForEvaluation(std::string_view data);
/// The parsed value of `--data`.
struct DataFlags {
  std::string train, val;
};
/// Parses `x=@x.npy`, or `train=x=@x.npy` and `val=x=@v.npy` in either order. Two sources for one role are an error.
Result<DataFlags> parseData(const std::vector<std::string>& data);

}  // namespace tg
