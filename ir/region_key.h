// SPDX-License-Identifier: Apache-2.0
// Keys for what fused regions compute and what kernels do: equal ones are found by a hash and lowered once,
// and a schedule measured for one serves all.
#pragma once

#include <cstdint>
#include <string>

#include "ir/module.h"

namespace tg {

/// Equal for tg.fused ops that differ in names, locations, sources of bindings, places and schedules only:
/// block arguments' types, ops, attributes, result types and groups agree. Not text: bytes.
std::string regionKey(const Op& fused);

/// Equal for kernels that differ in names and locations only: workgroup, grid, attributes, parameters' types
/// and ops agree. Not text: bytes.
std::string kernelKey(const Item& kernel);
/// Equal for kernels with equal keys, and much cheaper.
uint64_t quickHash(const Item& kernel);

}  // namespace tg
