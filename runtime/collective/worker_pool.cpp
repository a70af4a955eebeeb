// SPDX-License-Identifier: Apache-2.0
#include "runtime/collective/worker_pool.h"

#include <system_error>

#include "ir/wake.h"

namespace tg::collective {

WorkerPool::WorkerPool(int helpers) {
  try {
    for (int index = 1; index <= helpers; ++index) helpers_.emplace_back([this, index] { work(index); });
  } catch (const std::system_error&) {
    // Continue with the threads that were started.
  }
}

WorkerPool::~WorkerPool() {
  changeAndWake(mutex_, begun_, [&] { over_ = true; });
  for (std::thread& helper : helpers_) helper.join();
}

void WorkerPool::run(const std::function<void(int)>& job) {
  changeAndWake(mutex_, begun_, [&] {
    job_ = &job;
    left_ = static_cast<int>(helpers_.size());
    ++round_;
  });
  job(0);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return left_ == 0; });
}

void WorkerPool::work(int index) {
  std::unique_lock lock(mutex_);
  for (int64_t seen = 0;;) {
    begun_.wait(lock, [&] { return over_ || round_ > seen; });
    if (over_) return;
    seen = round_;
    const auto& job = *job_;
    lock.unlock();
    job(index);
    lock.lock();
    if (--left_ == 0) done_.notify_one();
  }
}

}  // namespace tg::collective
