// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/prefetch.h"

#include <algorithm>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include "ir/exceptions.h"
#include "ir/wake.h"

namespace tg {

size_t Prefetcher::usualWorkers() {
  constexpr unsigned kMost = 4;
  return std::clamp(std::thread::hardware_concurrency() / 2, 1u, kMost);
}

Prefetcher::Prefetcher(std::string what, Make make, int64_t first, int64_t last, size_t workers, int64_t each)
    : what_(std::move(what)), make_(std::move(make)), last_(last), each_(each), taken_(first), begun_(first),
      places_(std::max<size_t>(workers, 2)) {
  used_.reserve(places_.size() + 1);
  auto work = [this]() noexcept { this->work(); };
  workers = std::max<size_t>(workers, 1);
  workers_.reserve(workers);
  try {
    while (workers_.size() < workers) workers_.emplace_back(work);
  } catch (const std::exception&) {
    // If the system cannot start another thread, those that run do all the work, or else `next` does.
  }
}

Prefetcher::~Prefetcher() {
  changeAndWake(mutex_, changed_, [&] { stop_ = true; });
  for (std::thread& worker : workers_) worker.join();
}

/// An exception must not leave a thread's function, as it would end the process. It is passed on unchanged, since there
/// may not even be memory for an error's text.
Prefetcher::Place Prefetcher::prepare(int64_t index, Inputs used) const {
  Place out;
  try {
    out.batch.emplace(make_(index, std::move(used)));
  } catch (...) {
    out.thrown = std::current_exception();
  }
  return out;
}

Inputs Prefetcher::takeUsed() {
  if (used_.empty()) return {};
  Inputs used = std::move(used_.back());
  used_.pop_back();
  return used;
}

// Workers take batches in order, so all batches before one that fails are prepared or being prepared.
void Prefetcher::work() {
  for (;;) {
    std::unique_lock lock(mutex_);
    const auto room = [&] { return (begun_ - taken_) / each_ < static_cast<int64_t>(places_.size()); };
    changed_.wait(lock, [&] { return stop_ || begun_ > last_ || room(); });
    if (stop_ || begun_ > last_) return;
    const int64_t index = begun_;
    begun_ += each_;
    Inputs used = takeUsed();
    lock.unlock();
    Place made = prepare(index, std::move(used));
    changeAndWake(mutex_, changed_, [&] {
      stop_ = stop_ || made.failed();
      placeOf(index) = std::move(made);
    });
  }
}

Result<Inputs> Prefetcher::next(Inputs used) {
  std::unique_lock lock(mutex_);
  if (!used.empty()) used_.push_back(std::move(used));
  if (taken_ > last_) return fail("{} {} is the last", what_, last_);
  Place& place = placeOf(taken_);
  if (workers_.empty() && !place.ready()) place = prepare(taken_, takeUsed());
  changed_.wait(lock, [&] { return place.ready(); });
  if (place.thrown)
    return withinMemory(nullptr, fmt::format("{} {}", what_, taken_),
                        [&]() -> Result<Inputs> { std::rethrow_exception(place.thrown); });
  if (place.failed()) return place.batch->error();
  Result<Inputs> batch = *std::exchange(place.batch, std::nullopt);
  taken_ += each_;
  lock.unlock();
  changed_.notify_all();
  return batch;
}

}  // namespace tg
