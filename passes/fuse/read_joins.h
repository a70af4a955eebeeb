// SPDX-License-Identifier: Apache-2.0
// Joins of what kernels have written, read where it lies.
#pragma once

#include "ir/module.h"
#include "ir/target.h"

namespace tg::fuse {

/// Removes kernels that only put results of others, of 16 bits, side by side: those lie one behind the other in memory, as a group,
/// and what read the join reads the group through a view. A part of form-regions.
void readJoins(Item& func, const Target& target);

}  // namespace tg::fuse
