// SPDX-License-Identifier: Apache-2.0
// Ranks as threads of one process.
#pragma once

#include <memory>
#include <vector>

#include "runtime/collective/engine.h"

namespace tg::collective {

/// Connected engines, one for each rank; each must be used by a thread of its own. Rank `mute`, if not -1, sends and
/// receives nothing, like a stopped process. `timeout` as for HostEngine.
Result<std::vector<std::shared_ptr<Engine>>> simulatedRanks(int ranks, double timeout = 20, int mute = -1);

}  // namespace tg::collective
