// SPDX-License-Identifier: Apache-2.0
// Prepares batches while the device works on earlier ones.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "runtime/train/feed.h"

namespace tg {

/// Prepares the batches of steps first … last on a thread of its own, at most two ahead of the one taken.
class Prefetcher {
 public:
  /// `feed` must outlive this.
  Prefetcher(const Feed& feed, int64_t first, int64_t last);
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;
  /// Waits only for the batch that is being prepared, if any.
  ~Prefetcher();

  /// The batch of the next step; waits until it is ready. An error of the feed (or running out of memory) is returned
  /// in its step's place, and again in all later calls. A call after the last step is an error.
  Result<Inputs> next();

 private:
  void work();
  void makeBatches();

  const Feed& feed_;
  const int64_t first_, last_;
  int64_t taken_;  ///< the step to hand out next; this and the members below are guarded by the mutex
  bool stop_ = false;
  std::deque<Result<Inputs>> ready_;
  /// The exception that ended the thread; comes after the batches that are ready.
  std::exception_ptr thrown_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::thread worker_;
};

}  // namespace tg
