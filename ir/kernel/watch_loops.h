// SPDX-License-Identifier: Apache-2.0
// Loops that tell where a device ended them early.
#pragma once

#include <string_view>

#include "ir/module.h"

namespace tg {

/// The buffer of the words that watched kernels are given, one for each dispatch, zero before it.
inline constexpr std::string_view kLoopsBuffer = "loops";

/// Adds a parameter `%cut : buf<1xu32, inout>` to a kernel, whose word becomes 1 where a loop ends before its
/// index reaches its limit. Mesa's CPU device ends loops so and says nothing.
void watchLoops(Item& kernel);

}  // namespace tg
