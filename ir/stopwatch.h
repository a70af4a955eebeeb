// SPDX-License-Identifier: Apache-2.0
// How long something takes.
#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

namespace tg {

inline double inSeconds(std::chrono::duration<double> time) { return time.count(); }

/// The time since it was made.
class Stopwatch {
 public:
  double seconds() const { return inSeconds(Clock::now() - start_); }
  double milliseconds() const { return 1e3 * seconds(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

/// The median of measured values, 0 of none.
inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace tg
