// SPDX-License-Identifier: Apache-2.0
// The part of the data that one rank of a job trains on.
#pragma once

#include <memory>

#include "ir/module.h"
#include "runtime/train/feed.h"

namespace tg {

/// Step s of rank r of N takes the batch that step (s - 1)·N + r + 1 of one rank takes: so N ranks see in one step what
/// one rank sees in N, as with append-grad{accumulate=N}. With `split` above 1, which divides N, so many ranks take a
/// batch together, each its part of the rows by @train of `source`: then N / split takes the place of N. Evaluation
/// data is that of one rank.
std::unique_ptr<Feed> rankFeed(std::unique_ptr<Feed> whole, int rank, int ranks, int64_t split,
                               const Module& source);

}  // namespace tg
