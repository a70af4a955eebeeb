// SPDX-License-Identifier: Apache-2.0
// The samples.jsonl of a run: texts that the model generated during training.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "ir/result.h"
#include "runtime/train/log_file.h"

namespace tg {

/// Appends {"step", "prompt", "text"} for each text, with invalid UTF-8 replaced. A text that a stop interrupted also
/// has "broken_off"; it stays until a resumed run adds the next text.
class SampleLog {
 public:
  /// First removes rows after `lastStep`, which an interrupted run left; 0 starts a new file.
  static Result<std::unique_ptr<SampleLog>> open(const std::string& runDir, int64_t lastStep);
  /// Rows that existed and are damaged, including an incomplete last one.
  const DamagedRows& damaged() const { return damaged_; }
  /// The step whose text was interrupted and has to be generated again; 0 if there is none.
  int64_t owed() const { return owed_; }
  /// `text` follows the prompt; `whole` says whether it is complete. When this returns, other processes can read the
  /// row.
  Result<void> add(int64_t step, const std::string& prompt, const std::string& text, bool whole = true);

 private:
  SampleLog() = default;
  AppendFile file_;
  DamagedRows damaged_;
  int64_t owed_ = 0;
  std::string before_;  ///< if a text has to be repeated: the rows before it
};

}  // namespace tg
