// SPDX-License-Identifier: Apache-2.0
// The buffer element that a kernel op loads, stores, adds to or exchanges.
#pragma once

#include "ir/module.h"

namespace tg {

/// The operand `%b[…]` of an op, of which no op has two, or null.
inline const Operand* elementOf(const Op& op) {
  for (const Operand& operand : op.operands)
    if (operand.kind == Operand::Kind::element) return &operand;
  return nullptr;
}

}  // namespace tg
