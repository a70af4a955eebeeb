// SPDX-License-Identifier: Apache-2.0
// The queue of a session's calls: one call runs at a time, in the order in which they were made.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "ir/result.h"

namespace tg {

enum class CallStatus : uint8_t { completed, aborted, failed };

/// The outcome of a call: completed with a value; aborted, because the session was closed or given another module
/// before the call's turn came; or failed. As a `Result`, an aborted call is an error too.
template <class T>
class [[nodiscard]] CallResult : public Result<T> {
 public:
  using Result<T>::Result;
  CallResult(Result<T> result) : Result<T>(std::move(result)) {}
  static CallResult aborted(Error why) {
    CallResult out(std::move(why));
    out.aborted_ = true;
    return out;
  }
  CallStatus status() const {
    if (*this) return CallStatus::completed;
    return aborted_ ? CallStatus::aborted : CallStatus::failed;
  }

 private:
  bool aborted_ = false;
};

/// What a call does during its turn. A call that only reads finishes in bounded time, whatever other calls do.
enum class CallKind : uint8_t { any, reads };

/// A first-in, first-out lock for calls. A thread holds a `Turn` while its call runs. Thread-safe.
class CallQueue {
 public:
  /// The right to run, released by the destructor.
  class Turn {
   public:
    explicit Turn(CallQueue* queue, bool inLoan = false) : queue_(queue), inLoan_(inLoan) {}
    Turn(Turn&& other) noexcept : queue_(std::exchange(other.queue_, nullptr)), inLoan_(other.inLoan_) {}
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    Turn& operator=(Turn&&) = delete;
    ~Turn() {
      if (queue_) queue_->leave(inLoan_);
    }

   private:
    CallQueue* queue_;
    bool inLoan_;
  };
  /// Made by the call that has the turn. While it exists, `reads` calls may run too; its destructor waits for them.
  /// This prevents a deadlock of two sessions that each wait for a piece of the other's tensors.
  class Loan {
   public:
    explicit Loan(CallQueue& queue) : queue_(queue) { queue_.lend(); }
    ~Loan() { queue_.endLoan(); }
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;

   private:
    CallQueue& queue_;
  };

  /// Waits until all earlier calls are done; a `reads` call may also start while the running call has a `Loan`. An
  /// error if the call is aborted while it waits.
  Result<Turn> enter(CallKind kind = CallKind::any);
  /// The same, but first aborts the waiting calls with the reason `why`.
  Result<Turn> enterInstead(const std::string& why);
  /// Aborts the waiting calls and all later ones, then waits until the running call is done. If the caller itself is
  /// inside the running call, returns false without waiting.
  bool close(const std::string& why);
  /// Whether the running call belongs to this thread. A nested call would then wait for itself forever.
  bool isMine() const;
  /// The number of calls that wait for their turn.
  size_t waiting() const;

 private:
  struct Waiter {
    std::string aborted;  ///< the reason; "" while it waits
  };
  void leave(bool inLoan);
  void lend();
  void endLoan();
  void abortWaiting(const std::string& why);
  Result<Turn> wait(std::unique_lock<std::mutex>& lock, CallKind kind);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Waiter*> waiting_;
  bool busy_ = false;
  bool lent_ = false;      ///< `reads` calls may run, while busy
  int inLoan_ = 0;         ///< how many `reads` calls run in the loan
  std::thread::id owner_;  ///< the thread that has the turn, while busy
  std::string closed_;     ///< the reason; "" while open
};

}  // namespace tg
