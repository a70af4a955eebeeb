// SPDX-License-Identifier: Apache-2.0
// A batch dimension chosen by the inputs of a call: arguments with `{batch = AXIS}`.
#pragma once

#include <optional>

#include "ir/module.h"
#include "ir/result.h"
#include "runtime/runner.h"

namespace tg {

/// Refuses inputs of other names than those of the function's arguments, of which a session fills in host scalars. What
/// is missing is told before anything about what is there.
Result<void> checkNames(const Item& func, const Inputs& inputs);

/// The size that the inputs imply for the function's batch arguments. Each of these may come in its shape,
/// with any extent along its batch axis, or flat, as a whole number of rows; flat ones are given their shape.
/// Nothing when the function has no batch argument, or when an input is missing or differs in more than the
/// batch, which `checkInputs` then reports. Errors: two inputs imply different sizes; the length of a flat
/// one is no multiple of a row's.
Result<std::optional<int64_t>> batchOf(const Item& func, Inputs& inputs);

/// The argument's type with the batch that a shape of an input implies, of the same rank or flat; as it is where
/// it implies none.
Type withBatchOf(const Value& argument, const Shape& given);

/// One of `parts` equal parts of the rows of the batch arguments; other inputs are the same in each. An error where
/// the size is no multiple of `parts`.
Result<Inputs> partOf(const Item& func, const Inputs& inputs, int64_t part, int64_t parts);

/// Whether every batch argument has this size already.
bool hasBatch(const Item& func, int64_t size);

}  // namespace tg
