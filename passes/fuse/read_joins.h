// SPDX-License-Identifier: Apache-2.0
// Concatenations of kernels' results that are read in place.
#pragma once

#include "ir/module.h"
#include "ir/target.h"

namespace tg::fuse {

/// Removes kernels that only concatenate 16-bit results of other kernels. The results get neighbouring places in
/// memory, as a group, and the readers of the concatenation read the group through a view. A part of form-regions.
void readJoins(Item& func, const Target& target);

}  // namespace tg::fuse
