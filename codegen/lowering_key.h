// Keys for what fused regions compute and what kernels do, so that equal ones are found by a hash.
#pragma once

#include <cstdint>
#include <string>

#include "ir/module.h"

namespace tg {

/// Equal for tg.fused ops that differ in names, locations, sources of bindings and places only: schedule,
/// block arguments' types, ops, attributes, result types and groups agree. Not text: bytes.
std::string loweringKey(const Op& fused);

/// Equal for kernels that differ in names and locations only: workgroup, grid, attributes, parameters' types
/// and ops agree. Not text: bytes.
std::string kernelKey(const Item& kernel);
/// Equal for kernels with equal keys, and much cheaper.
uint64_t kernelHash(const Item& kernel);

}  // namespace tg
