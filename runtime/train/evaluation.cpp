// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/evaluation.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

namespace tg {

namespace {

Result<int64_t> batchesOf(const Feed& feed, int64_t batches) {
  if (batches < 0) return fail("the batches of an evaluation are 0 or more, not {}", batches);
  const int64_t all = feed.evalBatches();
  if (const int64_t count = batches ? std::min(batches, all) : all) return count;
  return fail("there is no batch to evaluate on");
}

Result<double> lossOf(Session& session, const Feed& feed, int64_t batch, bool& sessionFailed) {
  TG_TRY(Inputs inputs, feed.evalBatch(batch));
  sessionFailed = true;
  TG_TRY(CallOutputs out, session.run("eval", inputs));
  sessionFailed = false;
  if (out.results.empty() || out.results.front().second.elements() != 1)
    return fail("@eval gives no loss, which is its first result, of one element");
  return out.results.front().second.at(0);
}

double meanOf(double sum, int64_t count) {
  // The sum of opposite infinities is a NaN with a sign, which would be printed.
  if (std::isnan(sum)) sum = std::numeric_limits<double>::quiet_NaN();
  return sum / static_cast<double>(count);
}

bool drawsRandom(const Item& func) { return hostArgument(func, "rng"); }

}  // namespace

Result<std::optional<double>> evaluateLoss(Session& session, const Feed& feed, int64_t batches,
                                           bool& sessionFailed, const std::atomic<bool>* stop) {
  TG_TRY(const int64_t count, batchesOf(feed, batches));
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (stop && *stop) return std::optional<double>();
    TG_TRY(const double loss, lossOf(session, feed, i, sessionFailed));
    sum += loss;
  }
  return std::optional(meanOf(sum, count));
}

Result<double> evaluateTogether(Session& session, const Feed& feed, int64_t batches, bool& sessionFailed,
                                collective::Engine& ranks) {
  TG_TRY(const int64_t count, batchesOf(feed, batches));
  const auto module = session.module();
  const Item* func = module ? module->func("eval") : nullptr;
  const bool all = func && drawsRandom(*func);
  const int64_t each = all ? 1 : ranks.ranks();
  std::vector<double> losses;
  for (int64_t i = all ? 0 : ranks.rank(); i < count; i += each) {
    TG_TRY(const double loss, lossOf(session, feed, i, sessionFailed));
    losses.push_back(loss);
  }
  std::string own(losses.size() * sizeof(double), '\0');
  std::memcpy(own.data(), losses.data(), own.size());
  sessionFailed = true;
  TG_TRY(const std::vector<std::string> gathered, ranks.allGather(own));
  sessionFailed = false;
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    double loss = 0;
    const std::string& its = gathered[all ? 0 : static_cast<size_t>(i % each)];
    std::memcpy(&loss, its.data() + static_cast<size_t>(i / each) * sizeof loss, sizeof loss);
    sum += loss;
  }
  return meanOf(sum, count);
}

}  // namespace tg
