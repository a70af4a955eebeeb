// SPDX-License-Identifier: Apache-2.0
// Computes the loss on evaluation data, in the same way for training and for `tg-run eval`.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "runtime/session.h"
#include "runtime/train/feed.h"

namespace tg {

/// The mean of @eval's first result over the first `batches` batches, summed in order in f64. 0 means all batches; the
/// feed must have at least one. The session's steps and parameters do not change. If it fails, `sessionFailed` tells
/// whether the error is the session's or the feed's. Returns nothing if `stop` was set before the last batch.
Result<std::optional<double>> evaluateLoss(Session& session, const Feed& feed, int64_t batches,
                                           bool& sessionFailed, const std::atomic<bool>* stop = nullptr);

/// The same value, bit for bit, computed by several ranks, each of which evaluates every N-th batch. If @eval draws
/// random numbers each rank evaluates all batches, since ranks draw different numbers.
Result<double> evaluateTogether(Session& session, const Feed& feed, int64_t batches, bool& sessionFailed,
                                collective::Engine& ranks);

}  // namespace tg
