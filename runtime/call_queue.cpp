// SPDX-License-Identifier: Apache-2.0
#include "runtime/call_queue.h"

namespace tg {

Result<CallQueue::Turn> CallQueue::wait(std::unique_lock<std::mutex>& lock, CallKind kind) {
  if (!closed_.empty()) return fail(closed_);
  Waiter self;
  waiting_.push_back(&self);
  changed_.wait(lock, [&] {
    const bool lent = lent_ && kind == CallKind::reads;
    return !self.aborted.empty() || lent || (!busy_ && waiting_.front() == &self);
  });
  if (!self.aborted.empty()) return fail(self.aborted);
  std::erase(waiting_, &self);
  if (busy_) {
    ++inLoan_;
    return Turn(this, /*inLoan=*/true);
  }
  busy_ = true;
  owner_ = std::this_thread::get_id();
  return Turn(this);
}

void CallQueue::abortWaiting(const std::string& why) {
  for (Waiter* waiter : waiting_) waiter->aborted = why;
  waiting_.clear();
  changed_.notify_all();
}

Result<CallQueue::Turn> CallQueue::enter(CallKind kind) {
  std::unique_lock lock(mutex_);
  return wait(lock, kind);
}

Result<CallQueue::Turn> CallQueue::enterInstead(const std::string& why) {
  std::unique_lock lock(mutex_);
  abortWaiting(why);
  return wait(lock, CallKind::any);
}

/// Notifies while it holds the lock, since a thread that `close` releases may destroy the queue.
void CallQueue::leave(bool inLoan) {
  std::lock_guard lock(mutex_);
  if (inLoan)
    --inLoan_;
  else
    busy_ = false;
  changed_.notify_all();
}

void CallQueue::lend() {
  std::lock_guard lock(mutex_);
  lent_ = true;
  changed_.notify_all();
}

void CallQueue::endLoan() {
  std::unique_lock lock(mutex_);
  lent_ = false;
  changed_.wait(lock, [&] { return inLoan_ == 0; });
}

bool CallQueue::close(const std::string& why) {
  std::unique_lock lock(mutex_);
  if (closed_.empty()) closed_ = why;
  abortWaiting(why);
  if (busy_ && owner_ == std::this_thread::get_id()) return false;
  changed_.wait(lock, [&] { return !busy_; });
  return true;
}

bool CallQueue::isMine() const {
  std::lock_guard lock(mutex_);
  return busy_ && owner_ == std::this_thread::get_id();
}

size_t CallQueue::waiting() const {
  std::lock_guard lock(mutex_);
  return waiting_.size();
}

}  // namespace tg
