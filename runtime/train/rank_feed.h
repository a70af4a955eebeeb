// SPDX-License-Identifier: Apache-2.0
// The part of the data that one rank of a job trains on.
#pragma once

#include <memory>

#include "runtime/train/feed.h"

namespace tg {

/// Step s of rank r of N takes the batch that step (s - 1)·N + r + 1 of one rank takes: so N ranks see in one step what
/// one rank sees in N, as with append-grad{accumulate=N}. Evaluation data is that of one rank.
std::unique_ptr<Feed> rankFeed(std::unique_ptr<Feed> whole, int rank, int ranks);

}  // namespace tg
