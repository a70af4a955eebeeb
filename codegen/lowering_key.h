// A key for what a fused region computes, so that equal regions are lowered once.
#pragma once

#include <string>

#include "ir/module.h"

namespace tg {

/// Equal for tg.fused ops that differ in names, locations, sources of bindings and places only: schedule,
/// block arguments' types, ops, attributes, result types and groups agree. Not text: bytes.
std::string loweringKey(const Op& fused);

}  // namespace tg
