// SPDX-License-Identifier: Apache-2.0
#include "runtime/call_queue.h"

namespace tg {

Result<CallQueue::Turn> CallQueue::wait(std::unique_lock<std::mutex>& lock) {
  if (!closed_.empty()) return fail(closed_);
  Waiter self;
  waiting_.push_back(&self);
  changed_.wait(lock, [&] { return !self.aborted.empty() || (!busy_ && waiting_.front() == &self); });
  if (!self.aborted.empty()) return fail(self.aborted);
  waiting_.pop_front();
  busy_ = true;
  owner_ = std::this_thread::get_id();
  return Turn(this);
}

void CallQueue::abortWaiting(const std::string& why) {
  for (Waiter* waiter : waiting_) waiter->aborted = why;
  waiting_.clear();
  changed_.notify_all();
}

Result<CallQueue::Turn> CallQueue::enter() {
  std::unique_lock lock(mutex_);
  return wait(lock);
}

Result<CallQueue::Turn> CallQueue::enterInstead(const std::string& why) {
  std::unique_lock lock(mutex_);
  abortWaiting(why);
  return wait(lock);
}

void CallQueue::leave() {
  std::lock_guard lock(mutex_);
  busy_ = false;
  changed_.notify_all();
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
