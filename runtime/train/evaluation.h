// SPDX-License-Identifier: Apache-2.0
// Computes the loss and other results on evaluation data, in the same way for training and for `tg-run eval`.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/session.h"
#include "runtime/train/feed.h"

namespace tg {

/// Means over batches.
struct Evaluation {
  double loss = 0;                                     ///< @eval's first result
  std::vector<std::pair<std::string, double>> others;  ///< its other results of one element, by name
};

/// The names of a function's results of one element behind the first.
std::vector<std::string> otherResults(const Item& func);

/// Their means as printed behind the loss: ` | accuracy 0.9125`.
std::string otherText(const std::vector<std::pair<std::string, double>>& others);

/// The means of @eval's results over the first `batches` batches, summed in order in f64. 0 means all batches; the feed
/// must have at least one. The session's steps and parameters do not change. If it fails, `sessionFailed` tells whether
/// the error is the session's or the feed's. Returns nothing if `stop` was set before the last batch.
Result<std::optional<Evaluation>> evaluate(Session& session, const Feed& feed, int64_t batches,
                                           bool& sessionFailed, const std::atomic<bool>* stop = nullptr);

/// The same values, bit for bit, computed by several ranks, each of which evaluates every N-th batch. If @eval draws
/// random numbers each rank evaluates all batches, since ranks draw different numbers.
Result<Evaluation> evaluateTogether(Session& session, const Feed& feed, int64_t batches, bool& sessionFailed,
                                    collective::Engine& ranks);

}  // namespace tg
