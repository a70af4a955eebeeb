// SPDX-License-Identifier: Apache-2.0
// Sorts the ids of a scatter on the device, by kernels that are written in the kernel language and added to the module.
#pragma once

#include "ir/builder.h"
#include "ir/target.h"

namespace tg::fuse {

/// The ids of a scatter, sorted: those of row r are number order[offsets[r]], …, order[offsets[r + 1] - 1], in ascending
/// order.
struct SortedIds {
  Value* order;  ///< tensor<M x i32>, where M is the number of ids rounded up; those at the end are of no row
  Value* offsets;  ///< tensor<(rows + 1) x i32>
};

/// For each id: the element of `then` if it is one of the rows, else `otherwise`.
Value* whereRow(Builder& builder, Value* ids, int64_t rows, Value* then, int64_t otherwise);

/// Emits the kernels' calls. `ids` is tensor<N x i32>; ids outside of the rows are of no row.
SortedIds sortIds(Builder& builder, Value* ids, int64_t rows, const Target& target);

}  // namespace tg::fuse
