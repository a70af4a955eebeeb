// SPDX-License-Identifier: Apache-2.0
// samples.jsonl of a run: texts that the model wrote while it was trained.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "ir/result.h"
#include "runtime/train/append_file.h"

namespace tg {

/// Appends {"step", "prompt", "text"} for each text; what is not UTF-8 in one is replaced. A text that a stop broke off
/// has "broken_off" too: it stays until a resumed run adds the next text.
class SampleLog {
 public:
  /// Rows after `lastStep` that an interrupted run left are removed first; 0 starts anew.
  static Result<std::unique_ptr<SampleLog>> open(const std::string& runDir, int64_t lastStep);
  /// Rows that were there and are damaged, a cut off last one too.
  const DamagedRows& damaged() const { return damaged_; }
  /// The step whose text was broken off and is still to be made; 0 where none is.
  int64_t owed() const { return owed_; }
  /// `text` is what follows the prompt, all of it where it is `whole`. Others can read the row when this returns.
  Result<void> add(int64_t step, const std::string& prompt, const std::string& text, bool whole = true);

 private:
  SampleLog() = default;
  AppendFile file_;
  DamagedRows damaged_;
  int64_t owed_ = 0;
  std::string before_;  ///< where a text is owed: the rows before its own
};

}  // namespace tg
