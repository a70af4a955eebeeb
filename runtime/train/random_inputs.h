// SPDX-License-Identifier: Apache-2.0
// Random inputs, with which a function can be timed.
#pragma once

#include "ir/module.h"
#include "ir/result.h"
#include "runtime/runner.h"

namespace tg {

/// A value for one argument: normal floats, or ids that are valid for the tables they index, if the function is of
/// stage tensor.
Result<HostArray> randomInput(const Item& func, const Value& argument, uint64_t seed);

/// Inputs for all arguments except host scalars, which the session fills in. They are the same in every run: normal
/// floats, and ids that are valid for the tables they index if the function is of stage tensor.
Result<Inputs> randomInputs(const Item& func);

}  // namespace tg
