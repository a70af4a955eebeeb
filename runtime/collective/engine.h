// SPDX-License-Identifier: Apache-2.0
// Collective operations between the ranks of a job. A rank is a process that drives one device. All ranks call the
// same functions in the same order.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/result.h"

namespace tg::collective {

enum class Element : uint8_t { f32, f64 };
/// `same`: no arithmetic. A reduceScatter of values that are equal on all ranks takes this rank's shard; an
/// allGather only copies.
enum class Reduction : uint8_t { sum, mean, same };
/// The elements are divided into one shard for each rank, in rank order, all of one length. allReduce leaves the
/// reduction on all ranks. reduceScatter leaves it in this rank's shard, and the other shards undefined. allGather fills
/// the other ranks' shards from their owners.
enum class Kind : uint8_t { allReduce, reduceScatter, allGather };

/// Converts the names in a module's text.
inline Reduction reductionOf(std::string_view name) {
  return name == "sum" ? Reduction::sum : name == "same" ? Reduction::same : Reduction::mean;
}
inline Kind kindOf(std::string_view name) {
  return name == "reduce_scatter" ? Kind::reduceScatter
         : name == "all_gather"   ? Kind::allGather
                                  : Kind::allReduce;
}

/// The bytes that each rank sends (it receives as many), for a collective over `bytes` of all shards together.
inline int64_t sentBytes(Kind kind, int64_t bytes, int64_t ranks) {
  const int64_t times = kind == Kind::allReduce ? 2 : 1;  // a reduce-scatter and an all-gather
  return times * bytes * (ranks - 1) / ranks;
}

/// The cost of collectives to this rank so far.
struct Traffic {
  int64_t bytes = 0;    ///< sent
  double inFlight = 0;  ///< seconds with a collective in flight
  double waited = 0;    ///< seconds the caller was blocked in `wait`
};

/// The time from the start of the first of some tasks to the end of the last.
struct Interval {
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin, end;
};

class SharedMemory;

/// A collective in place on `count` elements of host memory. Terms are added in rank order, so all ranks get the same
/// bits in every run. Except for allReduce, `count` is a multiple of the number of ranks.
struct Task {
  void* elements = nullptr;
  int64_t count = 0;
  Element element = Element::f32;
  Reduction reduction = Reduction::sum;
  /// Polled by another thread until the elements may be read; empty means at once.
  std::function<bool()> ready = nullptr;
  /// Receives the times, unless null. Several tasks may share one; read it after their `wait`.
  Interval* interval = nullptr;
  Kind kind = Kind::allReduce;
  /// The shared memory that holds the elements, at the same offset on each rank (shared_memory.h), or null. With it
  /// ranks exchange no elements, only messages of one byte that they are ready.
  const SharedMemory* shared = nullptr;
};

class NcclEngine;

/// Called by one thread of each rank. After an error every later call gives that error.
class Engine {
 public:
  virtual ~Engine() = default;

  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  /// A description for messages, such as `2 ranks by mpi`.
  virtual std::string describe() const = 0;

  /// Starts a task and returns its ticket. The elements belong to the engine until `wait` of the ticket returns.
  virtual Result<int64_t> begin(const Task& task) = 0;
  virtual Result<void> wait(int64_t ticket) = 0;

  virtual Traffic traffic() const = 0;

  /// This engine as an NcclEngine, if it works on GPU memory by NCCL (nccl_engine.h); null if device memory is staged
  /// through the host.
  virtual NcclEngine* nccl() { return nullptr; }

  /// All ranks call this together: returns each rank's text, in rank order.
  virtual Result<std::vector<std::string>> allGather(const std::string& own) = 0;
  /// All ranks call this together: returns the logical and of their values.
  Result<bool> agree(bool own) {
    TG_TRY(const std::vector<std::string> said, allGather(own ? "yes" : "no"));
    return std::ranges::all_of(said, [](const std::string& each) { return each == "yes"; });
  }

  /// Whether a rank is lost. All ranks that are left see this.
  virtual bool failed() const = 0;
  /// After a failure: whether this rank prints it. It is the lowest of those that are left.
  virtual bool reportsFailure() const = 0;
  /// Ends all processes of the job with this exit code. Returns if it cannot end this one.
  virtual void abort(int code) = 0;
};

/// Joins the job in which this process was launched, with the first of these libraries that can be loaded. The dynamic
/// loader searches for a name without a folder. Errors: no library can be loaded, another version of the interface,
/// joining fails. `timeout` as for HostEngine.
Result<std::shared_ptr<Engine>> openPlugin(const std::vector<std::string>& libraries, double timeout);

}  // namespace tg::collective
