// SPDX-License-Identifier: Apache-2.0
// Arithmetic of the kernel language as GLSL expressions.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/kernel/kernel.h"

namespace tg {

/// `float`, `uvec4`, …
std::string glslType(const Type& scalar);
/// A literal of a scalar type, exact: a float is the shortest text that reads back as the same f32, inf
/// and nan are made from their bits. Negative ones stand in parentheses.
std::string glslLiteral(const Operand& literal, DType dtype);
/// The GLSL component of a vector's lane: "x" … "w".
char glslLane(int64_t lane);

/// Functions that printed expressions call, each printed once before main.
class GlslHelpers {
 public:
  /// The name of a function of that kind over `type`: "Min", "Max", "Div", "Mod", "MulHi", "MulSat",
  /// "SubgroupMin", "SubgroupMax", "HalfValue" and "Bf16Value" (of bits as u32), "HalfBits", "Bf16Bits",
  /// "ExactTerm" or "ExactRound"; "Log" and "Log2", which know subnormal numbers; "ZeroTimes", "ZeroOver" and
  /// "OverZero", 0·x, 0/x and x/0.
  std::string need(const std::string& kind, const Type& type);
  /// The functions needed so far, in a fixed order.
  std::string text() const;

 private:
  std::map<std::string, std::string> texts_;
};

/// An operand ready to print.
struct GlslOperand {
  std::string text;
  Type type;
  const Operand* literal = nullptr;  ///< when it is one, in each lane
};

/// The expression of a pure op over printed operands. Empty for ops that are no arithmetic (memory,
/// control, invocation ids), which the shader's printer handles.
std::string glslExpression(const Op& op, const std::vector<GlslOperand>& operands, GlslHelpers& helpers);

}  // namespace tg
