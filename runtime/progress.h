// SPDX-License-Identifier: Apache-2.0
// How far work on many bytes is, for people who would wonder.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "ir/diagnostic.h"

namespace tg {

/// Gives a note such as `initialising parameters: 1.20 GiB of 5.81 GiB` when the work has taken two seconds, and
/// another one every two seconds after that. Work that is done sooner is not spoken of.
class Progress {
 public:
  /// `to` may be empty. `bytes` are those of all of the work.
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
