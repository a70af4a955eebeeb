// SPDX-License-Identifier: Apache-2.0
// Threads that wait between one short piece of work and the next.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tg::collective {

/// Unlike `onAllCores`, which starts threads for each job that is long.
class Crew {
 public:
  /// So many threads beside the caller's, or as many as the system gives.
  explicit Crew(int helpers);
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  /// The caller's thread counts.
  int threads() const { return static_cast<int>(helpers_.size()) + 1; }
  /// job(i) for each i below `threads()`, each on a thread of its own. Comes back when all are done; throws nothing.
  void run(const std::function<void(int)>& job);

 private:
  void help(int index);

  std::mutex mutex_;
  std::condition_variable begun_, done_;
  const std::function<void(int)>* job_ = nullptr;
  int64_t round_ = 0;
  int left_ = 0;
  bool over_ = false;
  std::vector<std::thread> helpers_;
};

}  // namespace tg::collective
