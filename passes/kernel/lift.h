// SPDX-License-Identifier: Apache-2.0
// Loads that every invocation may do, out of the guards around them.
#pragma once

#include "ir/module.h"

namespace tg {

/// Moves loads of buffers that nobody writes before the ifs around them, where the index is the same for the
/// workgroup, known there, and in range whatever the conditions of these ifs are. A gradient through such a
/// load then needs one addition for the workgroup instead of one for each invocation that passes the guard.
void liftUniformLoads(Item& kernel);

}  // namespace tg
