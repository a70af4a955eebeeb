// Types of the optimizer updates. Private to ir/infer*.cpp.
#pragma once

#include <vector>

#include "ir/module.h"
#include "ir/result.h"

namespace tg {

/// The result types of tg.adam_update and tg.sgd_update, or the constraint that is broken.
Result<std::vector<Type>> inferOptimizer(const Op& op);

}  // namespace tg
