// SPDX-License-Identifier: Apache-2.0
// Private to passes/fuse/.
#pragma once

#include "ir/module.h"
#include "ir/target.h"
#include "passes/pass.h"

namespace tg::fuse {

/// Completes the schedules of a function by what all its kernels together tell; the last to be done.
void settleSchedules(Item& func, const Target& target, const PassContext& context);

}  // namespace tg::fuse
