// SPDX-License-Identifier: Apache-2.0
// Prepares batches while the device works on earlier ones.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/runner.h"

namespace tg {

/// Prepares batches first, first + each … up to last on threads of its own, several at a time, so that the device does
/// not wait where reading and converting a batch takes longer than a step.
class Prefetcher {
 public:
  using Make = std::function<Result<Inputs>(int64_t index, Inputs used)>;
  /// `what` names a batch in errors, as in "the batch of step". As many batches as there are `workers`, but at least
  /// two, are ready or being prepared; each of the workers is a thread, which calls `make` with a batch that `next` was
  /// given, or with none. If the system starts no thread, `next` calls it.
  Prefetcher(std::string what, Make make, int64_t first, int64_t last, size_t workers = usualWorkers(),
             int64_t each = 1);
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;
  /// Waits only for the batches that are being prepared, if any.
  ~Prefetcher();

  /// Half of the cores, but at most four.
  static size_t usualWorkers();
  /// The next batch; waits until it is ready. An error of `make` (or running out of memory) is returned in its batch's
  /// place, and again in all later calls. A call after the last batch is an error. A later batch may reuse the
  /// memory of `used`, an earlier one.
  Result<Inputs> next(Inputs used = {});

 private:
  /// What became of a batch: empty while it is prepared.
  struct Place {
    std::optional<Result<Inputs>> batch;
    std::exception_ptr thrown;
    bool ready() const { return batch || thrown; }
    bool failed() const { return thrown || (batch && !*batch); }
  };
  void work();
  Place prepare(int64_t index, Inputs used) const;
  Inputs takeUsed();
  Place& placeOf(int64_t index) { return places_[static_cast<size_t>(index / each_) % places_.size()]; }

  const std::string what_;
  const Make make_;
  const int64_t last_, each_;
  /// The batches to hand out next and to prepare next. The mutex guards them, and all members below.
  int64_t taken_, begun_;
  bool stop_ = false;  ///< no further batch is begun
  std::vector<Place> places_;
  std::vector<Inputs> used_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::thread> workers_;
};

}  // namespace tg
