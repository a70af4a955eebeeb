// SPDX-License-Identifier: Apache-2.0
// The instruments of a pipeline: printing between passes, timing, and saving the module when a pass crashes.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/driver/cli.h"

namespace tg {

/// Implements --print-ir-before and --print-ir-after, which print to standard error.
void addPrinting(PassManager& pipeline, const Command& command);
/// Implements --print-ir-tree-dir: writes DIR/00_input.tgir, DIR/01_<first pass>.tgir, …. Each section of a split file
/// has a folder of its own (`section` counts from 1; 0 for a file that is not split). The error of the first file that
/// could not be written is stored in `failed`, which must outlive the pipeline's run.
Result<void> addTree(PassManager& pipeline, const Command& command, int section,
                     std::optional<Error>& failed);
/// The files that may be written; for a split file, those in existing folders of sections.
std::vector<std::string> treeFiles(const Command& command);

/// The names of passes and their milliseconds, in order. The passes of an alias follow it; their times are included in
/// the alias's time.
class Timing {
 public:
  void add(std::string name, double milliseconds) {
    rows_.push_back({std::move(name), milliseconds, std::exchange(parts_, {})});
  }
  void watch(PassManager& pipeline);
  std::string table() const;

 private:
  using Part = std::pair<std::string, double>;
  struct Row {
    std::string name;
    double milliseconds;
    std::vector<Part> parts;
  };
  std::vector<Row> rows_;
  std::vector<Part> parts_;  ///< of the alias that is running
};

/// While this exists, a crash inside a pass (an assertion, an invalid access) saves the module before that pass to
/// `path` and says so; then the process ends as it would have without this. With "" nothing is saved.
class CrashGuard {
 public:
  explicit CrashGuard(std::string path);
  ~CrashGuard();
  CrashGuard(const CrashGuard&) = delete;
  CrashGuard& operator=(const CrashGuard&) = delete;
  void watch(PassManager& pipeline);
};

}  // namespace tg
