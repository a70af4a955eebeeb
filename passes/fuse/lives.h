// SPDX-License-Identifier: Apache-2.0
// Counts bytes of values in the arena as plan will place them.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "ir/module.h"

namespace tg::fuse {

/// Bytes of a kernel's results that plan can place in operands which die there; each operand is used once.
/// `dies(value)`: whether the value is not read behind the kernel. 0 for kernels that write groups.
int64_t bytesTakenOver(const Op& fused, const Module& module, const std::function<bool(const Value&)>& dies);

/// Lists of kernel results that lie one behind the other, because kernels write or read them as groups. Groups that share
/// a member are one list. In text order.
std::vector<std::vector<const Value*>> runsOfGroups(const Item& func);

}  // namespace tg::fuse
