// SPDX-License-Identifier: Apache-2.0
// One process at a time trains in a run's folder, and others can tell whether it lives.
#pragma once

#include <string>
#include <utility>

#include "ir/result.h"

namespace tg {

/// Keeps a second process out of a run's folder. The system gives it up when the process ends, however it
/// does.
class RunLock {
 public:
  /// The error says that another process trains there, or why the folder cannot be opened.
  static Result<RunLock> take(const std::string& runDir);
  RunLock(RunLock&& other) noexcept
      : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}
  RunLock& operator=(RunLock&&) = delete;
  ~RunLock();

  /// An error when the folder has another name by now or is gone: what is written to its path would be
  /// another run's.
  Result<void> check() const;

 private:
  RunLock(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  std::string path_;
  int descriptor_;
};

/// Whether a process trains in the folder now. False also where the file system has no locks.
bool isTraining(const std::string& runDir);

}  // namespace tg
