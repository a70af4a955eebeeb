#include "runtime/train/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include <fmt/format.h>

namespace tg {

namespace {

// Who asks whether a run lives holds a shared lock for a moment, which a trainer outlasts.
constexpr int kAttempts = 10;
constexpr auto kPause = std::chrono::milliseconds(10);

int openFolder(const std::string& path) { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }

}  // namespace

Result<RunLock> RunLock::take(const std::string& runDir) {
  int descriptor = openFolder(runDir);
  if (descriptor < 0) return fail(fmt::format("cannot open {}: {}", runDir, std::strerror(errno)));
  RunLock lock(descriptor);
  for (int i = 0; i < kAttempts; ++i) {
    if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return lock;
    std::this_thread::sleep_for(kPause);
  }
  return fail(fmt::format("{} is in use: another process trains there", runDir));
}

RunLock::~RunLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool isTraining(const std::string& runDir) {
  int descriptor = openFolder(runDir);
  if (descriptor < 0) return false;
  bool held = ::flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(descriptor);
  return held;
}

}  // namespace tg
