// A key for what a fused region computes: equal regions are lowered once, and a schedule measured for one
// serves all of them.
#pragma once

#include <string>

#include "ir/module.h"

namespace tg {

/// Equal for tg.fused ops that differ in names, locations, sources of bindings, places and schedules only:
/// block arguments' types, ops, attributes, result types and groups agree. Not text: bytes.
std::string regionKey(const Op& fused);

}  // namespace tg
