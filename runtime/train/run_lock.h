// SPDX-License-Identifier: Apache-2.0
// A lock, so that only one process at a time trains in a run's folder, and others can tell whether it lives.
#pragma once

#include <string>
#include <utility>

#include "ir/result.h"

namespace tg {

/// Keeps a second process out of a run's folder. The system releases the lock when the process ends, even if it
/// crashes.
class RunLock {
 public:
  /// The error says that another process trains there, or why the folder cannot be opened.
  static Result<RunLock> take(const std::string& runDir);
  RunLock(RunLock&& other) noexcept
      : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}
  RunLock& operator=(RunLock&&) = delete;
  ~RunLock();

  /// An error if the folder has been renamed or removed: a file written to its path would then belong to another run.
  Result<void> check() const;

 private:
  RunLock(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  std::string path_;
  int descriptor_;
};

/// Whether a process is training in the folder now. False also if the file system has no locks.
bool isTraining(const std::string& runDir);

}  // namespace tg
