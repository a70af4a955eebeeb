// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/evaluation.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "runtime/train/prefetch.h"

namespace tg {

namespace {

Result<int64_t> batchesOf(const Feed& feed, int64_t batches) {
  if (batches < 0) return fail("the batches of an evaluation are 0 or more, not {}", batches);
  const int64_t all = feed.evalBatches();
  if (const int64_t count = batches ? std::min(batches, all) : all) return count;
  return fail("there is no batch to evaluate on");
}

/// The loss of a batch, followed by the other results of one element.
Result<std::vector<double>> resultsOf(Session& session, const Inputs& inputs, bool& sessionFailed) {
  sessionFailed = true;
  TG_TRY(CallOutputs out, session.run("eval", inputs));
  sessionFailed = false;
  if (out.results.empty() || out.results.front().second.elements() != 1)
    return fail("@eval gives no loss, which is its first result, of one element");
  std::vector<double> values;
  for (const auto& [name, value] : out.results)
    if (value.elements() == 1) values.push_back(value.at(0));
  return values;
}

/// Batches `first`, `first` + `each` … below `count`.
Prefetcher batchesAhead(const Feed& feed, int64_t first, int64_t each, int64_t count) {
  auto make = [&feed](int64_t index, Inputs used) { return feed.evalBatch(index, std::move(used)); };
  return {"evaluation batch", make, first, count - 1, Prefetcher::usualWorkers(), each};
}

/// Adds up the results of batches in their order.
void add(std::span<const double> values, std::vector<double>& sums) {
  sums.resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) sums[i] += values[i];
}

Evaluation meansOf(const Session& session, std::vector<double> sums, int64_t count) {
  // The sum of opposite infinities is a NaN with a sign.
  for (double& sum : sums) sum = unsignedNan(sum / static_cast<double>(count));
  Evaluation out{sums[0], {}};
  const std::vector<std::string> names = otherResults(*session.module()->func("eval"));
  for (size_t i = 0; i < names.size(); ++i) out.others.emplace_back(names[i], sums[i + 1]);
  return out;
}

bool drawsRandom(const Item& func) { return hostArgument(func, "rng"); }

}  // namespace

std::vector<std::string> otherResults(const Item& func) {
  std::vector<std::string> names;
  for (size_t i = 1; i < func.results.size(); ++i)
    if (func.results[i].type.elements() == 1) names.push_back(func.results[i].name);
  return names;
}

std::string otherText(const std::vector<std::pair<std::string, double>>& others) {
  std::string text;
  for (const auto& [name, mean] : others) text += fmt::format(" | {} {:.4g}", name, mean);
  return text;
}

Result<std::optional<Evaluation>> evaluate(Session& session, const Feed& feed, int64_t batches,
                                           bool& sessionFailed, const std::atomic<bool>* stop) {
  TG_TRY(const int64_t count, batchesOf(feed, batches));
  Prefetcher ahead = batchesAhead(feed, 0, 1, count);
  std::vector<double> sums;
  Inputs inputs;
  for (int64_t i = 0; i < count; ++i) {
    if (stop && *stop) return std::optional<Evaluation>();
    TG_TRY(inputs, ahead.next(std::move(inputs)));
    TG_TRY(const std::vector<double> values, resultsOf(session, inputs, sessionFailed));
    add(values, sums);
  }
  return std::optional(meansOf(session, std::move(sums), count));
}

Result<Evaluation> evaluateTogether(Session& session, const Feed& feed, int64_t batches, bool& sessionFailed,
                                    collective::Engine& ranks) {
  TG_TRY(const int64_t count, batchesOf(feed, batches));
  const auto module = session.module();
  const Item* func = module ? module->func("eval") : nullptr;
  if (!func) return fail("the session has no @eval");
  const bool all = drawsRandom(*func);
  const int64_t each = all ? 1 : ranks.ranks(), first = all ? 0 : ranks.rank();
  Prefetcher ahead = batchesAhead(feed, first, each, count);
  std::vector<double> values;  // of one batch after the other
  Inputs inputs;
  for (int64_t i = first; i < count; i += each) {
    TG_TRY(inputs, ahead.next(std::move(inputs)));
    TG_TRY(const std::vector<double> more, resultsOf(session, inputs, sessionFailed));
    values.insert(values.end(), more.begin(), more.end());
  }
  std::string own(values.size() * sizeof(double), '\0');
  std::memcpy(own.data(), values.data(), own.size());
  sessionFailed = true;
  TG_TRY(const std::vector<std::string> gathered, ranks.allGather(own));
  sessionFailed = false;
  std::vector<double> sums, batch(1 + otherResults(*func).size());
  for (int64_t i = 0; i < count; ++i) {
    const std::string& its = gathered[all ? 0 : static_cast<size_t>(i % each)];
    const size_t bytes = batch.size() * sizeof(double);
    std::memcpy(batch.data(), its.data() + static_cast<size_t>(i / each) * bytes, bytes);
    add(batch, sums);
  }
  return meansOf(session, std::move(sums), count);
}

}  // namespace tg
