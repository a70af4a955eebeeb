// SPDX-License-Identifier: Apache-2.0
// What a run measured, on disk.
//
// metrics.jsonl is the record the other files and the page are made from: a line for each row, {"step": 120,
// "time": 1.52, "loss": 2.31, …}. Keys: loss, norm, lr, ms (of a step), items_per_s, save_ms (that training
// waited for checkpoints since the row before, where there were any); val_loss in rows of evaluation; other results of @train by name. time is seconds of training over all parts of a resumed run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ir/result.h"
#include "runtime/train/append_file.h"

namespace tg {

struct MetricRow {
  int64_t step = 0;
  double time = 0;  ///< seconds
  std::vector<std::pair<std::string, double>> values;
};

enum class MetricsFormat : uint8_t { jsonl, csv, tensorboard };
/// Parses `jsonl,csv,tensorboard`; an error names the unknown word.
Result<std::vector<MetricsFormat>> parseMetricsFormats(const std::string& text);

/// Appends rows to the files of one run: metrics.jsonl (always), metrics.csv, events.out.tfevents.* .
class MetricsWriter {
 public:
  /// Rows after `lastStep` that an interrupted run left are removed first; 0 starts anew. Where the evaluation of that
  /// step is owed, its row is removed too: no checkpoint knows of it, so that it is made again.
  static Result<std::unique_ptr<MetricsWriter>> open(const std::string& runDir,
                                                     const std::vector<MetricsFormat>& formats,
                                                     int64_t lastStep, bool evaluationOwed = false);
  ~MetricsWriter();
  /// Rows that were there and are damaged, a cut off last one too.
  const DamagedRows& damaged() const;
  /// Buffered; `flush` makes the rows visible to readers.
  Result<void> add(const MetricRow& row);
  Result<void> flush();

 private:
  struct Impl;
  MetricsWriter() = default;
  std::unique_ptr<Impl> impl_;
};

/// Calls `visit` with each row of a run's metrics.jsonl in order, without holding them all. Errors and what
/// is passed over are those of readMetrics.
Result<void> forEachMetricRow(const std::string& runDir, const std::function<void(const MetricRow&)>& visit);

/// The rows of a run's metrics.jsonl in order. A last line without its line break is passed over; another
/// broken line is an error that names it.
Result<std::vector<MetricRow>> readMetrics(const std::string& runDir);

}  // namespace tg
