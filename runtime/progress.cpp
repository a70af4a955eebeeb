// SPDX-License-Identifier: Apache-2.0
#include "runtime/progress.h"

#include <fmt/format.h>

#include "ir/text.h"

namespace tg {

void Progress::add(int64_t bytes) {
  constexpr std::chrono::seconds kPatience{2};
  done_ += bytes;
  const Clock::time_point now = Clock::now();
  if (now - told_ < kPatience || done_ >= bytes_ || !to_) return;
  told_ = now;
  to_({Severity::note, nullptr, fmt::format("{}: {} of {}", doing_, sizeText(done_), sizeText(bytes_)), {}});
}

}  // namespace tg
