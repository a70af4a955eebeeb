// SPDX-License-Identifier: Apache-2.0
// Bytes of values in the arena, as plan will place them.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "ir/module.h"

namespace tg::fuse {

/// Bytes of a kernel's results that take the place of operands which die there, each operand's once. `dies`: whether
/// a value's bytes are free behind the kernel. Kernels that write groups take over nothing.
int64_t bytesTakenOver(const Op& fused, const Module& module, const std::function<bool(const Value&)>& dies);

/// Results of kernels that lie one behind the other, because kernels write or read them as groups; those of groups
/// that have members in common together. In text order.
std::vector<std::vector<const Value*>> runsOfGroups(const Item& func);

}  // namespace tg::fuse
