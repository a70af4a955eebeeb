// SPDX-License-Identifier: Apache-2.0
// What a module asks of a device that has not enough memory for it.
#pragma once

#include <cstdint>

#include "ir/module.h"
#include "ir/result.h"

namespace tg {

/// The error of an allocation, with notes: what the module's buffers take, the largest values alive at the peak,
/// and how to have it run in what is free.
Error withMemory(Error error, const Module& module, int64_t freeBytes);

}  // namespace tg
