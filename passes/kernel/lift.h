// SPDX-License-Identifier: Apache-2.0
// Moves loads that every invocation may execute out of the ifs around them.
#pragma once

#include "ir/module.h"

namespace tg {

/// Moves a load of a buffer that the kernel does not write in front of the ifs around it, if its index is uniform in the
/// workgroup, known there, and in range whatever the conditions of these ifs are. A gradient through the load then needs one
/// addition for the workgroup instead of one for each invocation that passes the guard.
void liftUniformLoads(Item& kernel);

}  // namespace tg
