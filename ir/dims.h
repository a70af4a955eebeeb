// SPDX-License-Identifier: Apache-2.0
// Names of axes. `{dims = [batch, time]}` behind the type of an argument, a parameter or a state names each axis, `_`
// none; `{batch = 0}` of an argument is short for dims that name the batch alone.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "ir/result.h"

namespace tg {

/// The name of the axis along which the rows of a call lie.
inline constexpr std::string_view kBatchDim = "batch";

/// The name of each axis, "" where it has none; empty where the attributes name none.
std::vector<std::string> dimsOf(const AttrList& attrs, int rank);

/// The axes of that name, in order.
std::vector<int> axesNamed(const AttrList& attrs, int rank, std::string_view name);

/// The argument's batch axis, or -1.
int batchAxis(const Value& argument);

/// The extent of the batch of a function's arguments; 0 where none has one.
int64_t batchSize(const Item& func);

/// `dims` as an attribute; an empty name is printed as `_`.
Attr dimsAttr(const std::vector<std::string>& names);

/// Checks `dims` and `batch` of all arguments, parameters and states: a name for each axis, and one extent for each
/// name among the parameters, the states and the arguments of one function.
Result<void> verifyDims(const Module& module);

}  // namespace tg
