// SPDX-License-Identifier: Apache-2.0
// A key of what an op computes, for finding equal ops.
#pragma once

#include <string>

#include "ir/op_bytes.h"

namespace tg {

/// Keys are equal exactly for ops without regions that compute the same: name, operands, attributes, result types. The
/// operands of a commutative op may be in either order. The key is bytes, not text.
std::string keyOf(const Op& op, ValueNumbering& numbers);

}  // namespace tg
