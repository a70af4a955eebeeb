// SPDX-License-Identifier: Apache-2.0
// Changes that other threads wait for.
#pragma once

#include <condition_variable>
#include <mutex>

namespace tg {

/// Makes a change under its mutex, and then wakes all threads that wait for it.
template <class Change>
void changeAndWake(std::mutex& mutex, std::condition_variable& waiting, Change change) {
  {
    std::lock_guard lock(mutex);
    change();
  }
  waiting.notify_all();
}

}  // namespace tg
