// SPDX-License-Identifier: Apache-2.0
#include "ir/all_cores.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <vector>

namespace tg {

// The threads take the next index from a shared counter, so that long jobs do not hold up the others.
void onAllCores(size_t count, const std::function<void(size_t)>& job) {
  std::atomic<size_t> next{0};
  std::atomic<bool> thrown{false};
  std::exception_ptr first;
  // An exception that leaves a thread's function would end the process.
  auto work = [&]() noexcept {
    try {
      for (size_t i = next++; i < count && !thrown; i = next++) job(i);
    } catch (...) {
      if (!thrown.exchange(true)) first = std::current_exception();
    }
  };
  const size_t wanted = std::min<size_t>(std::max(1u, std::thread::hardware_concurrency()), count);
  std::vector<std::thread> threads;
  try {
    while (threads.size() + 1 < wanted) threads.emplace_back(work);
  } catch (const std::exception&) {
    // If the system cannot start another thread, those that run do all the work.
  }
  work();
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace tg
