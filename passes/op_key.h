// SPDX-License-Identifier: Apache-2.0
// A key for what an op computes, so that equal ops can be found.
#pragma once

#include <string>

#include "ir/op_bytes.h"

namespace tg {

/// Equal exactly for ops without regions that compute the same: name, operands, attributes, result types. The
/// operands of a commutative op may stand in either order. Not text: bytes.
std::string keyOf(const Op& op, ValueNumbering& numbers);

}  // namespace tg
