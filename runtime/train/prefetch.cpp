// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/prefetch.h"

#include <utility>

#include <fmt/format.h>

#include "ir/exceptions.h"
#include "ir/wake.h"

namespace tg {

namespace {

constexpr size_t kAhead = 2;

}  // namespace

Prefetcher::Prefetcher(const Feed& feed, int64_t first, int64_t last)
    : feed_(feed), first_(first), last_(last), taken_(first), worker_([this]() noexcept { work(); }) {}

Prefetcher::~Prefetcher() {
  changeAndWake(mutex_, changed_, [&] { stop_ = true; });
  worker_.join();
}

/// An exception must not leave a thread's function, as it would end the process. It is passed on unchanged, since there
/// may not even be memory for an error's text.
void Prefetcher::work() {
  try {
    makeBatches();
  } catch (...) {
    std::lock_guard lock(mutex_);
    thrown_ = std::current_exception();
  }
  changed_.notify_all();
}

void Prefetcher::makeBatches() {
  for (int64_t step = first_; step <= last_; ++step) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stop_ || ready_.size() < kAhead; });
      if (stop_) return;
    }
    Result<Inputs> batch = feed_.batch(step);
    const bool failed = !batch;
    changeAndWake(mutex_, changed_, [&] { ready_.push_back(std::move(batch)); });
    if (failed) return;
  }
}

Result<Inputs> Prefetcher::next() {
  std::unique_lock lock(mutex_);
  if (taken_ > last_) return fail("there is no step after {}", last_);
  changed_.wait(lock, [&] { return !ready_.empty() || thrown_; });
  if (ready_.empty())
    return withinMemory(nullptr, fmt::format("the batch of step {}", taken_),
                        [&]() -> Result<Inputs> { std::rethrow_exception(thrown_); });
  if (!ready_.front()) return ready_.front().error();
  Result<Inputs> batch = std::move(ready_.front());
  ready_.pop_front();
  ++taken_;
  lock.unlock();
  changed_.notify_all();
  return batch;
}

}  // namespace tg
