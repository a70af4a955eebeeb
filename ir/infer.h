// SPDX-License-Identifier: Apache-2.0
// Inference is verification: an op's result types follow from its operands, or there is a labelled
// reason why not.
#pragma once

#include <vector>

#include "ir/module.h"
#include "ir/result.h"

namespace tg {

/// What near of tg.scatter_add says of a block with one id of a bucket, less the id's place in the block.
constexpr int64_t kOneNear = 1 << 20;

/// The result types of an op from its operands and attributes. Ops whose type is free (param,
/// constant, iota, cast's element type, kernel buffers) read it from the results the op already has.
/// An error is labelled with the constraint, `tg.matmul [matmul.c2]: inner dimensions differ: 8 and 9`.
/// `module` resolves symbols and may be null.
Result<std::vector<Type>> infer(const Op& op, const Module* module);

/// The same without a limit of sizes, for those who build ops out of others: verifySizes judges the whole.
Result<std::vector<Type>> inferAnySize(const Op& op, const Module* module);

/// The NumPy broadcast of two shapes, or nothing.
std::optional<Shape> broadcast(const Shape& a, const Shape& b);
/// The most elements a tensor may have: far above any device's memory, far below where a count of bytes
/// would overflow.
constexpr int64_t kMaxElements = int64_t{1} << 40;
/// Whether every extent is 1 or more and their product at most kMaxElements.
bool hasValidExtents(const Shape& shape);
/// Whether a literal is a value of an element type; any number is one of a float type.
bool represents(const Operand& literal, DType dtype);
/// Whether an element type has a number, reals being rounded to it.
bool represents(double number, DType dtype);
/// A literal as the text has it: 2, 2.0.
std::string literalText(const Operand& literal);
/// A possibly negative axis as 0..rank-1, or -1 when out of range.
int normalAxis(int64_t axis, int rank);
/// The shape after reducing `axes`.
Shape reducedShape(const Shape& shape, const std::vector<int64_t>& axes, bool keepdims);

}  // namespace tg
