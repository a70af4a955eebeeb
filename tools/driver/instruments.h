// SPDX-License-Identifier: Apache-2.0
// What the driver hangs on a pipeline: printing between passes, timing, saving the module of a crash.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/driver/cli.h"

namespace tg {

/// --print-ir-before/-after, to standard error.
void addPrinting(PassManager& pipeline, const Command& command);
/// --print-ir-tree-dir: DIR/00_input.tgir, DIR/01_<first pass>.tgir, …; sections of a split file get a
/// folder each (`section` counts from 1, 0 for a file that is not split).
/// The error of the first file that could not be written goes to `failed`, which outlives the pipeline's run.
Result<void> addTree(PassManager& pipeline, const Command& command, int section,
                     std::optional<Error>& failed);
/// The files that it may write, of a split file those in the folders of sections that are there already.
std::vector<std::string> treeFiles(const Command& command);

/// Names and milliseconds in the order they happened; below an alias those of its passes, which are in its
/// own.
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
  std::vector<Part> parts_;  ///< of the alias that runs
};

/// While alive, a crash inside a pass (an assertion, a bad access) saves the module as it was before the
/// pass to `path` and says so, before the process ends as it would have. "" saves nothing.
class CrashGuard {
 public:
  explicit CrashGuard(std::string path);
  ~CrashGuard();
  CrashGuard(const CrashGuard&) = delete;
  CrashGuard& operator=(const CrashGuard&) = delete;
  void watch(PassManager& pipeline);
};

}  // namespace tg
