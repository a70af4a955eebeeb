// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "ir/text_file.h"

namespace tg {

namespace {

// Waits for processes that hold the lock for a moment only: one that checks whether the run lives (it takes a shared
// lock), or one that was killed and has not quite ended.
constexpr int kAttempts = 100;
constexpr auto kPause = std::chrono::milliseconds(20);

int openFolder(const std::string& path) { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }

}  // namespace

Result<RunLock> RunLock::take(const std::string& runDir) {
  int descriptor = openFolder(runDir);
  if (descriptor < 0) return fail("cannot open {}: {}", runDir, std::strerror(errno));
  RunLock lock(runDir, descriptor);
  for (int i = 0; i < kAttempts; ++i) {
    if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return lock;
    if (errno != EWOULDBLOCK) return fail("cannot lock {}: {}", runDir, std::strerror(errno));
    std::this_thread::sleep_for(kPause);
  }
  return fail("{} is in use by another process that trains there", runDir);
}

RunLock::~RunLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<void> RunLock::check() const {
  if (isFileAt(descriptor_, path_)) return {};
  return fail("{} was moved or deleted, so the run ends", path_);
}

bool isTraining(const std::string& runDir) {
  int descriptor = openFolder(runDir);
  if (descriptor < 0) return false;
  bool held = ::flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(descriptor);
  return held;
}

}  // namespace tg
