// SPDX-License-Identifier: Apache-2.0
// One rank's part of the training data.
#pragma once

#include <memory>

#include "ir/module.h"
#include "runtime/train/feed.h"

namespace tg {

/// In step s, rank r of N takes the batch that a single rank takes in step (s - 1)·N + r + 1. So in one step N ranks
/// see what a single rank sees in N steps, as with append-grad{accumulate=N}. If `split`, which must divide N, is above
/// 1, that many ranks share a batch and each takes its part of the rows of @train in `source`; N / split then replaces
/// N above. Evaluation data is that of a single rank.
std::unique_ptr<Feed> rankFeed(std::unique_ptr<Feed> whole, int rank, int ranks, int64_t split,
                               const Module& source);

}  // namespace tg
