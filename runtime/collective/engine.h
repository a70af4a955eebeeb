// SPDX-License-Identifier: Apache-2.0
// What joins the ranks of a job: each rank is a process with a device of its own, and all call the same
// functions in the same order.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/result.h"

namespace tg::collective {

enum class Element : uint8_t { f32, f64 };
/// `same`: all ranks have the same, of which each takes what it wants; where parts are gathered, nothing is added.
enum class Reduction : uint8_t { sum, mean, same };
/// What elements become that are one part for each rank, in their order, all of one length: their reduction on all
/// ranks; this rank's part its reduction, and the others nothing one may read; or the others' parts what they have.
enum class Kind : uint8_t { allReduce, reduceScatter, allGather };

/// The reduction that collectives call by this name.
inline Reduction reductionOf(std::string_view name) {
  return name == "sum" ? Reduction::sum : name == "same" ? Reduction::same : Reduction::mean;
}
/// And the kind.
inline Kind kindOf(std::string_view name) {
  return name == "reduce_scatter" ? Kind::reduceScatter
         : name == "all_gather"   ? Kind::allGather
                                  : Kind::allReduce;
}

/// Bytes that each rank sends the others, and as many it gets, where so many of all parts together are brought together.
inline int64_t sentBytes(Kind kind, int64_t bytes, int64_t ranks) {
  const int64_t times = kind == Kind::allReduce ? 2 : 1;  // a scattering and a gathering
  return times * bytes * (ranks - 1) / ranks;
}

/// What collectives have cost this rank so far.
struct Traffic {
  int64_t bytes = 0;  ///< that it has sent the others
  double underWay = 0,
         waited = 0;  ///< seconds: of reductions, and of those in which the caller did nothing else
};

/// When the first of some reductions began to travel, and when the last was done.
struct Journey {
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin, end;
};

class SharedMemory;

/// Replaces `count` elements of host memory as its kind says; reductions are added in the order of the ranks, so that
/// all get the same bits every time. Except for allReduce the count is a multiple of the number of ranks.
struct Task {
  void* elements = nullptr;
  int64_t count = 0;
  Element element = Element::f32;
  Reduction reduction = Reduction::sum;
  /// Asked by another thread, again and again, whether the elements are there; empty: they are.
  std::function<bool()> ready = nullptr;
  /// Null, or where the times are written, by several tasks too; to be read when `wait` has come back.
  Journey* journey = nullptr;
  Kind kind = Kind::allReduce;
  /// Null, or where the elements lie, at the same place of each rank's (shared_memory.h): nothing is sent, but word
  /// that they are there.
  const SharedMemory* shared = nullptr;
};

class NcclEngine;

/// Called by one thread of each rank. After an error every later call gives that error.
class Engine {
 public:
  virtual ~Engine() = default;

  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  /// For people: `2 ranks by mpi`.
  virtual std::string describe() const = 0;

  /// Begins a task and gives its ticket. The bytes belong to the engine until `wait` of the ticket.
  virtual Result<int64_t> begin(const Task& task) = 0;
  virtual Result<void> wait(int64_t ticket) = 0;

  virtual Traffic traffic() const = 0;

  /// This engine where ranks reduce on their GPUs (nccl_engine.h); null: what lies on a device goes through the host.
  virtual NcclEngine* onGpus() { return nullptr; }

  /// What each rank gave, in the order of the ranks; a meeting of all.
  virtual Result<std::vector<std::string>> gather(const std::string& own) = 0;
  /// Whether all ranks say yes; a meeting of all.
  Result<bool> agree(bool own) {
    TG_TRY(const std::vector<std::string> said, gather(own ? "yes" : "no"));
    return std::all_of(said.begin(), said.end(), [](const std::string& each) { return each == "yes"; });
  }

  /// Whether the engine itself has failed, on all ranks that are still there: a rank is lost.
  virtual bool failed() const = 0;
  /// Whether this is the rank that then tells people: the first of those that are still there.
  virtual bool speaks() const = 0;
  /// Ends all processes of the job with this exit code. Returns where it cannot end this one.
  virtual void abort(int code) = 0;
};

}  // namespace tg::collective
