// SPDX-License-Identifier: Apache-2.0
// Who may use a session: one call at a time, in the order they were made.
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

/// What became of a call: a value, nothing because the session was closed or got another module before the
/// call's turn came, or the reason it failed. Reads as a `Result` in which an aborted call is an error too.
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

/// What a call does in its turn. One that reads stays in it for a bounded time, whatever other calls do.
enum class CallKind : uint8_t { any, reads };

/// All members may be called from several threads.
class CallQueue {
 public:
  /// A call's turn, over when it is destroyed.
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
  /// Made by a call in its turn: as long as it lives, calls that only read run too, and its end waits for them. So two
  /// sessions that each wait for a piece of the other go on.
  class Loan {
   public:
    explicit Loan(CallQueue& queue) : queue_(queue) { queue_.lend(); }
    ~Loan() { queue_.endLoan(); }
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;

   private:
    CallQueue& queue_;
  };

  /// Waits until the calls made before are done, or until a call lends its turn to one that reads. An error when the call
  /// is aborted instead.
  Result<Turn> enter(CallKind kind = CallKind::any);
  /// The same, but first aborts the calls that are waiting, giving them this reason.
  Result<Turn> enterInstead(const std::string& why);
  /// Aborts the waiting calls and all later ones, then waits until the running one is done. False where that is the
  /// caller's own, which is not waited for.
  bool close(const std::string& why);
  /// Whether the turn is that of a call on this thread, which a further one would wait for without end.
  bool isMine() const;
  /// Calls that wait for their turn.
  size_t waiting() const;

 private:
  struct Waiter {
    std::string aborted;  ///< why; "" while it waits
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
  bool lent_ = false;      ///< to calls that read, while busy
  int inLoan_ = 0;         ///< such calls at work
  std::thread::id owner_;  ///< whose turn it is, while busy
  std::string closed_;     ///< why; "" while it is open
};

}  // namespace tg
