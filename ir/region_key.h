// SPDX-License-Identifier: Apache-2.0
// Keys of fused regions and kernels by what they compute. Equal ones are found by hash and lowered once, and a
// schedule measured for one is used for all.
#pragma once

#include <cstdint>
#include <string>

#include "ir/module.h"

namespace tg {

/// Equal for tg.fused ops that differ only in names, locations, sources of bindings, places and schedules: the types
/// of block arguments, ops, attributes, result types and groups agree. The key is binary.
std::string regionKey(const Op& fused);

/// Equal for kernels that differ only in names and locations: workgroup, grid, attributes, parameter types and ops
/// agree. The key is binary.
std::string kernelKey(const Item& kernel);
/// A hash that is equal for kernels with equal keys, and much cheaper to compute.
uint64_t quickHash(const Item& kernel);

}  // namespace tg
