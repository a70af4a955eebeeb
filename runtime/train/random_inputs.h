// SPDX-License-Identifier: Apache-2.0
// Inputs to time a function with.
#pragma once

#include "ir/module.h"
#include "ir/result.h"
#include "runtime/runner.h"

namespace tg {

/// A value for one argument: normal floats, and ids below the tables they index where the function is of
/// stage tensor.
Result<HostArray> randomInput(const Item& func, const Value& argument, uint64_t seed);

/// Normal floats, and ids below the tables they index where the function is of stage tensor: the same in
/// every run. Host scalars are left to the session.
Result<Inputs> randomInputs(const Item& func);

}  // namespace tg
