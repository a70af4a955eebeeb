// SPDX-License-Identifier: Apache-2.0
// The measurements of a run, on disk.
//
// metrics.jsonl is the record from which the other files and the page are made. It has a line for each row, {"step":
// 120, "time": 1.52, "loss": 2.31, …}. The keys are: loss, norm, lr, ms (of a step), items_per_s, save_ms (the time
// since the previous row in which training waited for checkpoints, if it did), val_loss in rows of evaluation, and
// other results of @train by name. time is seconds of training, over all parts of a resumed run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/result.h"
#include "runtime/train/log_file.h"

namespace tg {

struct MetricRow {
  int64_t step = 0;
  double time = 0;  ///< seconds
  std::vector<std::pair<std::string, double>> values;
  /// The value with this name, if the row has one.
  std::optional<double> value(std::string_view name) const;
};

enum class MetricsFormat : uint8_t { jsonl, csv, tensorboard };
/// Parses a list such as `jsonl,csv,tensorboard`; the error names the unknown word.
Result<std::vector<MetricsFormat>> parseMetricsFormats(const std::string& text);

/// Appends rows to the files of one run: metrics.jsonl (always), metrics.csv, events.out.tfevents.* .
class MetricsWriter {
 public:
  /// First removes rows after `lastStep`, which an interrupted run left; 0 starts new files. If the evaluation of that
  /// step has to be repeated its row is removed too, since no checkpoint includes it.
  static Result<std::unique_ptr<MetricsWriter>> open(const std::string& runDir,
                                                     const std::vector<MetricsFormat>& formats,
                                                     int64_t lastStep, bool evaluationOwed = false);
  ~MetricsWriter();
  /// Rows that existed and are damaged, including an incomplete last one.
  const DamagedRows& damaged() const;
  /// Adds a row to a buffer; `flush` makes it visible to readers.
  Result<void> add(const MetricRow& row);
  Result<void> flush();

 private:
  struct Impl;
  MetricsWriter() = default;
  std::unique_ptr<Impl> impl_;
};

/// Calls `visit` for each row of a run's metrics.jsonl in order, without keeping all rows in memory. Errors, and what
/// is skipped, are as in readMetrics.
Result<void> forEachMetricRow(const std::string& runDir, const std::function<void(const MetricRow&)>& visit);

/// The rows of a run's metrics.jsonl in order. A last line without a line break is skipped; any other damaged line is
/// an error that names it.
Result<std::vector<MetricRow>> readMetrics(const std::string& runDir);

}  // namespace tg
