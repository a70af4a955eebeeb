// SPDX-License-Identifier: Apache-2.0
// What one op of a kernel is worth when some of its operands are known.
#pragma once

#include <optional>
#include <vector>

#include "ir/module.h"

namespace tg {

/// An operand as far as it is known: its type, the bits of a scalar constant (bool is 0 or 1), the value it
/// names unless it is a literal.
struct KnownOperand {
  Type type;
  std::optional<uint32_t> word;
  Value* value = nullptr;
};

/// The 32 bits of a literal of an element type.
uint32_t literalWord(const Operand& literal, DType dtype);
/// The literal with these bits; nothing for a NaN, whose text keeps neither sign nor payload.
std::optional<Operand> wordLiteral(uint32_t word, DType dtype);

/// A literal or another value that an op without memory and regions equals bit for bit, or nothing. Sums,
/// products, quotients and roots are rounded once, as they are at run time; functions that a device only
/// approximates (exp, sin, pow, …) are left to it.
std::optional<Operand> foldOp(const Op& op, const std::vector<KnownOperand>& in, const Item& kernel);

}  // namespace tg
