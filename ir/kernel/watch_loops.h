// SPDX-License-Identifier: Apache-2.0
// Detects loops that a device ends too early.
#pragma once

#include <string_view>

#include "ir/module.h"

namespace tg {

/// The name of the buffer of words for watched kernels: one word for each dispatch, zero before it runs.
inline constexpr std::string_view kLoopsBuffer = "loops";

/// Adds a parameter `%cut : buf<1xu32, inout>` to a kernel. Its word becomes 1 when a loop ends before its index has
/// reached its limit, as on Mesa's CPU device, which ends long loops without an error.
void watchLoops(Item& kernel);

}  // namespace tg
