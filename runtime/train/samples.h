// SPDX-License-Identifier: Apache-2.0
// samples.jsonl of a run: texts that the model wrote while it was trained.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "ir/result.h"
#include "runtime/train/append_file.h"

namespace tg {

/// Appends {"step", "prompt", "text"} for each text; what is not UTF-8 in one is replaced.
class SampleLog {
 public:
  /// Rows after `lastStep` that an interrupted run left are removed first; 0 starts anew.
  static Result<std::unique_ptr<SampleLog>> open(const std::string& runDir, int64_t lastStep);
  /// Rows that were there and are damaged, a cut off last one too.
  const DamagedRows& damaged() const { return damaged_; }
  /// `text` is what follows the prompt. Others can read the row when this returns.
  Result<void> add(int64_t step, const std::string& prompt, const std::string& text);

 private:
  SampleLog() = default;
  AppendFile file_;
  DamagedRows damaged_;
};

}  // namespace tg
