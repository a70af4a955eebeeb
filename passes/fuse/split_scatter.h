// SPDX-License-Identifier: Apache-2.0
// Large scatters in kernels that share the search for ids, for split-reductions:
//
//   buckets      a large tg.scatter_add gets a third operand: where blocks of ids have any near which rows
//   pieces       a tg.scatter_add to few rows adds pieces of the ids to rows of their own, then these
#pragma once

#include "ir/builder.h"
#include "ir/target.h"

namespace tg::fuse {

/// What stands for a large tg.scatter_add of two operands: with many rows and ids, one with a third operand that says
/// where which rows are near; with few rows, a sum of several. Null where one kernel is right.
Value* splitScatter(Builder& builder, const Op& op, const Target& target);

}  // namespace tg::fuse
