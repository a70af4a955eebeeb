// SPDX-License-Identifier: Apache-2.0
// A pool of threads for many short jobs.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tg::collective {

/// For jobs too short for `onAllCores`, which starts its threads for each job.
class WorkerPool {
 public:
  /// Starts this many threads besides the caller's, or fewer if the system cannot start more.
  explicit WorkerPool(int helpers);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// The number of threads, including the caller's.
  int threads() const { return static_cast<int>(helpers_.size()) + 1; }
  /// Runs job(i) for each i below `threads()`, each on its own thread, and waits for all. `job` must not throw.
  void run(const std::function<void(int)>& job);

 private:
  void work(int index);

  std::mutex mutex_;
  std::condition_variable begun_, done_;
  const std::function<void(int)>* job_ = nullptr;
  int64_t round_ = 0;
  int left_ = 0;
  bool over_ = false;
  std::vector<std::thread> helpers_;
};

}  // namespace tg::collective
