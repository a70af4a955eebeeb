// SPDX-License-Identifier: Apache-2.0
// Batch sizes chosen at call time: the inputs of arguments with `{batch = AXIS}` determine the size of that axis.
#pragma once

#include <optional>

#include "ir/module.h"
#include "ir/result.h"
#include "runtime/runner.h"

namespace tg {

/// Refuses a call whose input names are not those of the function's arguments. Host scalars may be missing: the session
/// fills them in. Missing inputs are reported before anything about the inputs that were given.
Result<void> checkNames(const Item& func, const InputViews& inputs);

/// The batch size that the inputs imply. An input of a batch argument may come in the argument's shape, with any extent
/// along the batch axis, or flat (rank 1) with a whole number of rows; a flat one gets its full shape here. Returns
/// nothing if the function has no batch argument, or if an input is missing or differs in more than the batch;
/// `checkInputs` then reports that. Errors: two inputs imply different sizes; the length of a flat input is no multiple
/// of a row's.
Result<std::optional<int64_t>> batchOf(const Item& func, InputViews& inputs);

/// The argument's type with the batch size that an input of shape `given` implies: one of the same rank, or a flat one.
/// If `given` implies none, the type is unchanged.
Type withBatchOf(const Value& argument, const Shape& given);

/// Part number `part` of `parts` equal parts of the batch: those rows of the batch arguments, and all other inputs
/// unchanged. Rows that do not lie together are copied to `copies`, which then holds them. An error if the batch size is
/// no multiple of `parts`.
Result<InputViews> partOf(const Item& func, const InputViews& inputs, int64_t part, int64_t parts,
                          Inputs& copies);

/// Whether every batch argument has this size already.
bool hasBatch(const Item& func, int64_t size);

}  // namespace tg
