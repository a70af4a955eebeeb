// SPDX-License-Identifier: Apache-2.0
// Prints arithmetic ops of the kernel language as GLSL expressions.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/kernel/kernel.h"

namespace tg {

/// `float`, `uvec4`, …
std::string glslType(const Type& scalar);
/// An exact literal of a scalar type. A float is the shortest text that reads back as the same f32; inf and nan are
/// made from their bits. Negative numbers are put in parentheses.
std::string glslLiteral(const Operand& literal, DType dtype);
/// The GLSL name of a vector's component: "x" … "w".
char glslLane(int64_t lane);

/// The helper functions that printed expressions call. Each is printed once, before main.
class GlslHelpers {
 public:
  /// Gives the name of a helper function over `type` and has it printed. The kinds: "Min", "Max", "SubgroupMin" and
  /// "SubgroupMax", which give NaN for a NaN; "Div", "Mod", "Pow", "ToInt" and "ToUint", which are defined for all
  /// operands; "MulHi", "MulSat"; "Log" and "Log2", which handle subnormal numbers; "ZeroTimes", "ZeroOver" and
  /// "OverZero", which are 0·x, 0/x and x/0; "HalfBits" and "Bf16Bits", which round to a type's bits, and
  /// "HalfValue" and "Bf16Value", which turn bits in a u32 into the value; "Bf16Near" and "Bf16Cut", which
  /// round and truncate to bf16 in f32; "ExactTerm" and "ExactRound".
  std::string need(const std::string& kind, const Type& type);
  /// The text of the functions needed so far, sorted by name, each after those that it calls.
  std::string text() const;

 private:
  std::map<std::string, std::string> texts_;
};

/// A printed operand.
struct GlslOperand {
  std::string text;
  Type type;
  const Operand* literal = nullptr;  ///< the literal that the operand has in every lane, if any
  bool foreseen = false;             ///< a driver may compute it ahead (GlslPrinter::foresee)
};

/// The expression of a pure op over printed operands. Empty for ops that are no arithmetic (memory, control flow,
/// invocation ids), which GlslPrinter handles.
std::string glslExpression(const Op& op, const std::vector<GlslOperand>& operands, GlslHelpers& helpers);

}  // namespace tg
