// SPDX-License-Identifier: Apache-2.0
// Names of axes. `{dims = [batch, time]}` after the type of an argument, a parameter or a state names each axis; `_`
// means no name. On an argument `{batch = 0}` is short for dims that name only the batch axis.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "ir/result.h"

namespace tg {

/// The name of the axis along which a call's examples lie.
inline constexpr std::string_view kBatchDim = "batch";

/// The name of each axis, "" for one without a name; empty if the attributes name no axis.
std::vector<std::string> dimsOf(const AttrList& attrs, int rank);

/// The axes with this name, in order.
std::vector<int> axesNamed(const AttrList& attrs, int rank, std::string_view name);

/// The argument's batch axis, or -1.
int batchAxis(const Value& argument);

/// The batch extent of a function's arguments; 0 if none has a batch axis.
int64_t batchSize(const Item& func);

/// `dims` as an attribute; an empty name becomes `_`.
Attr dimsAttr(const std::vector<std::string>& names);

/// Checks `dims` and `batch` of all arguments, parameters and states: one name for each axis, and one extent for each
/// name among the parameters, the states and the arguments of one function.
Result<void> verifyDims(const Module& module);

}  // namespace tg
