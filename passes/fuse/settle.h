// SPDX-License-Identifier: Apache-2.0
// Completes schedules once all kernels of a function are known. Private to passes/fuse/.
#pragma once

#include "ir/module.h"
#include "ir/target.h"
#include "passes/pass.h"

namespace tg::fuse {

/// Sets the fields of schedules that depend on other kernels of the function. Runs last: it reads the final schedules.
void settleSchedules(Item& func, const Target& target, const PassContext& context);

}  // namespace tg::fuse
