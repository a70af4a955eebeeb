// SPDX-License-Identifier: Apache-2.0
// Batches made while the device works on the ones before.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "runtime/train/feed.h"

namespace tg {

/// Makes the batches of steps first … last on a thread of its own, at most two ahead of the one taken.
class Prefetcher {
 public:
  /// `feed` must outlive this.
  Prefetcher(const Feed& feed, int64_t first, int64_t last);
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;
  /// Waits for the batch being made, if any, and for no other.
  ~Prefetcher();

  /// The batch of the next step; waits until it is made. An error of the feed comes in its step's place, and
  /// again from then on, also the one that there is no memory; after the last step it is an error to ask.
  Result<Inputs> next();

 private:
  void work();
  void makeBatches();

  const Feed& feed_;
  const int64_t first_, last_;
  int64_t taken_;  ///< the step to hand out next; this and what follows under the mutex
  bool stop_ = false;
  std::deque<Result<Inputs>> ready_;
  std::exception_ptr thrown_;  ///< what ended the thread, behind the batches that are ready
  std::mutex mutex_;
  std::condition_variable changed_;
  std::thread worker_;
};

}  // namespace tg
