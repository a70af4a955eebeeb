// SPDX-License-Identifier: Apache-2.0
// Makes 16-bit copies of an optimizer's parameters in one kernel; a part of flatten-optimizer.
#pragma once

#include <string>
#include <unordered_set>

#include "ir/module.h"
#include "ir/target.h"

namespace tg::fuse {

/// The parameters that some function casts to 16 bits as a whole and whose copies can lie in a group: the copy's bytes are
/// a multiple of the target's alignment, so that a kernel can bind the next member by itself, and members of the 16-bit
/// group start at the same elements as those of the f32 group. Larger ones, from 4 Mi elements on, are not among them: their
/// copy is a kernel of its own.
std::unordered_set<std::string> copiedParameters(const Module& module, const Target& target);

/// Replaces the casts of a function's parameters to 16 bits by one region for each run of parameters. A run is a list of
/// parameters that lie one behind the other in a group of the module, or those of one tg.reduce_scatter, of whose updates
/// each rank computes a part. Other casts stay. The copies are then alive together, from the region on; rematerialize may
/// run the region again.
void flattenCopies(const Module& module, Item& func, const Target& target);

}  // namespace tg::fuse
