// SPDX-License-Identifier: Apache-2.0
// The buffer element that a kernel op accesses.
#pragma once

#include "ir/module.h"

namespace tg {

/// The operand `%b[…]` of an op, or null. No op has two.
inline const Operand* elementOf(const Op& op) {
  for (const Operand& operand : op.operands)
    if (operand.kind == Operand::Kind::element) return &operand;
  return nullptr;
}

/// Whether an op, or an op in its bodies, accesses an element of this buffer.
inline bool touches(const Op& op, const Value* buffer) {
  if (const Operand* element = elementOf(op); element && element->value == buffer) return true;
  return anyInside(op, [&](const Op& inner) { return touches(inner, buffer); });
}

}  // namespace tg
