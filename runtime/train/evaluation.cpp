// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/evaluation.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tg {

Result<std::optional<double>> evaluateLoss(Session& session, const Feed& feed, int64_t batches,
                                           bool& sessionFailed, const std::atomic<bool>* stop) {
  const int64_t all = feed.evalBatches();
  const int64_t count = batches ? std::min(batches, all) : all;
  if (count == 0) return fail("there is no batch to evaluate on");
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (stop && *stop) return std::optional<double>();
    TG_TRY(Inputs inputs, feed.evalBatch(i));
    sessionFailed = true;
    TG_TRY(CallOutputs out, session.run("eval", inputs));
    sessionFailed = false;
    sum += out.results.front().second.at(0);
  }
  // Of opposite infinities the sum is a NaN with a sign, which would be printed.
  if (std::isnan(sum)) sum = std::numeric_limits<double>::quiet_NaN();
  return std::optional(sum / static_cast<double>(count));
}

}  // namespace tg
