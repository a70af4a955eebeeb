// SPDX-License-Identifier: Apache-2.0
// Splits large scatters into kernels that share the search for ids; a part of split-reductions:
//
//   sorted       a tg.scatter_add with many rows and ids gets the sorted ids, so that each row visits only its own
//   pieces       a tg.scatter_add to few rows adds each piece of the ids to its own rows, which are then summed
#pragma once

#include "ir/builder.h"
#include "ir/target.h"

namespace tg::fuse {

/// The replacement of a large tg.scatter_add of two operands: with many rows and ids, one with sorted ids; with few
/// rows, a sum over pieces. Null where one kernel is better.
Value* splitScatter(Builder& builder, const Op& op, const Target& target);

}  // namespace tg::fuse
