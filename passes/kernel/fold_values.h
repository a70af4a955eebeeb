// SPDX-License-Identifier: Apache-2.0
// Folds one kernel op when some of its operands are known.
#pragma once

#include <optional>
#include <vector>

#include "ir/module.h"

namespace tg {

/// What is known of an operand: its type, the bits of a scalar constant (a bool is 0 or 1), and the value that it names
/// unless it is a literal.
struct KnownOperand {
  Type type;
  std::optional<uint32_t> word;
  Value* value = nullptr;
};

/// The 32 bits of a literal as an element of this type.
uint32_t literalWord(const Operand& literal, DType dtype);
/// The literal with these bits; nothing for a NaN, whose text keeps neither sign nor payload.
std::optional<Operand> wordLiteral(uint32_t word, DType dtype);

/// The literal or value that an op, without memory and regions, equals bit for bit, or nothing. Sums, products, quotients
/// and roots are rounded once, as at run time. Functions that devices only approximate (exp, sin, pow, …) are not folded.
std::optional<Operand> foldOp(const Op& op, const std::vector<KnownOperand>& in, const Item& kernel);

}  // namespace tg
