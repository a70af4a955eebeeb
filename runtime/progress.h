// SPDX-License-Identifier: Apache-2.0
// Progress notes for work on many bytes that may take long.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "ir/diagnostic.h"

namespace tg {

/// Gives a note such as `initialising parameters: 1.20 GiB of 5.81 GiB` after two seconds of work, and then every two
/// seconds. Work that takes less time gives no note.
class Progress {
 public:
  /// `to` receives the notes, and may be empty. `bytes` is the total amount of work.
  Progress(const DiagnosticHandler& to, std::string doing, int64_t bytes)
      : to_(to), doing_(std::move(doing)), bytes_(bytes) {}
  void add(int64_t bytes);

 private:
  using Clock = std::chrono::steady_clock;
  const DiagnosticHandler& to_;
  std::string doing_;
  int64_t bytes_, done_ = 0;
  Clock::time_point told_ = Clock::now();
};

}  // namespace tg
