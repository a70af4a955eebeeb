// SPDX-License-Identifier: Apache-2.0
// Ranks that are threads of one process, for tests and for the interpreter as the oracle of several ranks.
#pragma once

#include <memory>
#include <vector>

#include "runtime/collective/engine.h"

namespace tg::collective {

/// So many engines that are joined with each other, each for a thread of its own. A rank is muted where its number
/// is `mute`: it gives no sign of life and receives nothing, as a process that is stopped.
Result<std::vector<std::shared_ptr<Engine>>> simulatedRanks(int ranks, double patience = 20, int mute = -1);

}  // namespace tg::collective
