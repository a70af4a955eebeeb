// SPDX-License-Identifier: Apache-2.0
// Type inference: the result types of an op follow from its operands and attributes, or an error with the label of
// the violated constraint says why not. So inference also verifies.
#pragma once

#include <vector>

#include "ir/module.h"
#include "ir/result.h"

namespace tg {

/// The result types of an op from its operands and attributes. Types that do not follow from these (param, constant,
/// iota, cast's element type, kernel buffers) are read from the results the op already has. An error is labelled with
/// the constraint: `tg.matmul [matmul.c2]: inner dimensions differ: 8 and 9`. `module` resolves symbols and may be
/// null.
Result<std::vector<Type>> infer(const Op& op, const Module* module);

/// The same without the limit of sizes, for callers that build ops out of others: verifySizes checks the result.
Result<std::vector<Type>> inferAnySize(const Op& op, const Module* module);

/// The NumPy broadcast of two shapes; nothing if they do not broadcast.
std::optional<Shape> broadcast(const Shape& a, const Shape& b);
/// The most elements a tensor may have: far above any device's memory, and far below what makes a count of bytes
/// overflow.
constexpr int64_t kMaxElements = int64_t{1} << 40;
/// Whether every extent is 1 or more and their product at most kMaxElements.
bool hasValidExtents(const Shape& shape);
/// Whether a literal is a value of an element type; a float type accepts any number.
bool represents(const Operand& literal, DType dtype);
/// Whether an element type can represent a number; reals are rounded to it.
bool represents(double number, DType dtype);
/// Whether a value has a type, or whether a literal is one of its values.
bool isOfType(const Operand& operand, const Type& type);
/// A literal as it is written in the text: 2, 2.0.
std::string literalText(const Operand& literal);
/// A possibly negative axis as 0..rank-1; -1 when out of range.
int normalAxis(int64_t axis, int rank);
/// The axes of a reduction, which it has as tg.sum does: counted from the front, in order.
std::vector<int64_t> reducedAxes(const Op& op);
/// The shape after reducing `axes`.
Shape reducedShape(const Shape& shape, const std::vector<int64_t>& axes, bool keepdims);

}  // namespace tg
