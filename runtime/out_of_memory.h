// SPDX-License-Identifier: Apache-2.0
// Explains an allocation failure: adds notes on a module's memory use to the error.
#pragma once

#include <cstdint>

#include "ir/module.h"
#include "ir/result.h"

namespace tg {

/// `error`, which an allocation gave, with notes: the sizes of the module's buffers, the largest values that are live
/// at the peak, and options that make the module fit in `freeBytes`.
Error withMemory(Error error, const Module& module, int64_t freeBytes);

}  // namespace tg
