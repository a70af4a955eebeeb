#include "runtime/train/evaluation.h"

#include <algorithm>

namespace tg {

Result<double> evaluateLoss(Session& session, const Feed& feed, int64_t batches, bool& sessionFailed) {
  const int64_t all = feed.evalBatches();
  const int64_t count = batches ? std::min(batches, all) : all;
  if (count == 0) return fail("there is no batch to evaluate on");
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    TG_TRY(Inputs inputs, feed.evalBatch(i));
    sessionFailed = true;
    TG_TRY(CallOutputs out, session.run("eval", inputs));
    sessionFailed = false;
    sum += out.results.front().second.at(0);
  }
  return sum / static_cast<double>(count);
}

}  // namespace tg
