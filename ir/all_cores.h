// SPDX-License-Identifier: Apache-2.0
// Runs independent jobs on all cores.
#pragma once

#include <cstddef>
#include <functional>

namespace tg {

/// Calls job(0) … job(count - 1), in any order and as many at a time as there are cores; returns when all have ended.
/// If a job throws, no further job is begun, and the first exception is thrown on the caller's thread.
void onAllCores(size_t count, const std::function<void(size_t)>& job);

}  // namespace tg
