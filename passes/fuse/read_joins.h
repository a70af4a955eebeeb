// SPDX-License-Identifier: Apache-2.0
// Lets readers of a concatenation read its pieces where they are.
#pragma once

#include "ir/module.h"
#include "ir/target.h"

namespace tg::fuse {

/// Where a concatenation of f32 values is rounded to 16 bits, rounds the values instead: their kernels do that as they store.
/// Then readJoins removes the concatenation, also if others read it in f32. Requires: stage(tensor). A part of form-regions.
void roundPieces(Item& func, const Target& target);

/// Removes kernels that only concatenate results of other kernels. The results become members of a group, so they
/// lie side by side in memory, and the readers of the concatenation read the group through a view. A part of form-regions.
void readJoins(Item& func, const Target& target);

}  // namespace tg::fuse
