// SPDX-License-Identifier: Apache-2.0
// Independent jobs, as many at a time as there are cores.
#pragma once

#include <cstddef>
#include <functional>

namespace tg {

/// Calls job(0) … job(count - 1), in no order, and returns when all have ended. What a job throws, this
/// throws on the caller's thread: the first exception, after which no job is begun.
void onAllCores(size_t count, const std::function<void(size_t)>& job);

}  // namespace tg
