// SPDX-License-Identifier: Apache-2.0
// The loss on data for evaluation: what training prints and what `tg-run eval` prints are one computation.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "runtime/session.h"
#include "runtime/train/feed.h"

namespace tg {

/// The mean of @eval's first result over the first `batches` batches, added up in their order in f64; 0 is
/// all there are, which the feed must have at least one of. The session's steps and parameters stay as they
/// are. `sessionFailed` tells whose the error is: the session's, or the feed's. Nothing where `stop` was set
/// before the last batch.
Result<std::optional<double>> evaluateLoss(Session& session, const Feed& feed, int64_t batches,
                                           bool& sessionFailed, const std::atomic<bool>* stop = nullptr);

/// The same bits with other ranks, each of which evaluates every N-th batch; one that draws random numbers evaluates
/// all, since each draws others.
Result<double> evaluateTogether(Session& session, const Feed& feed, int64_t batches, bool& sessionFailed,
                                collective::Engine& ranks);

}  // namespace tg
