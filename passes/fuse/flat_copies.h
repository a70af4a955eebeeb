// SPDX-License-Identifier: Apache-2.0
// 16-bit copies of an optimizer's parameters as one kernel: a part of flatten-optimizer.
#pragma once

#include <string>
#include <unordered_set>

#include "ir/module.h"
#include "ir/target.h"

namespace tg::fuse {

/// The parameters that some function casts to 16 bits as a whole and whose copies can lie in a group: those of a
/// multiple of 8 elements, whose members start at the same elements as in a group of f32. Copies of 4 Mi elements and
/// more are kernels of their own.
std::unordered_set<std::string> copiedParameters(const Module& module);

/// Makes the casts of a function's parameters to 16 bits one region, for each run of parameters that stand one behind
/// the other in a group of the module, or of whose updates each rank has a part. Other casts stay. The copies then live together, from the region on; rematerialize may
/// run the region again.
void flattenCopies(const Module& module, Item& func, const Target& target);

}  // namespace tg::fuse
