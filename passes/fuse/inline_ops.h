// SPDX-License-Identifier: Apache-2.0
// Classifies ops by their relation to kernels: those copied into every kernel that reads them, those that stay outside
// of kernels, those that need several kernels. Used by all passes from flatten-optimizer to merge-kernels.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "ir/module.h"
#include "ir/target.h"

namespace tg::fuse {

/// Whether an op is copied into every region that reads it: views, constants, iota, masks computed from those,
/// widening casts, and the scaling of a factor that only f32x3 products read.
bool isInline(const Op& op);
/// Whether an op casts from the type in memory (f16, bf16) to the type that kernels compute with, which changes no value.
bool isWidening(const Op& op);
/// Maps each elementwise op or view whose result ends up in one tg.max_reduce alone, maybe through further such ops, to
/// that maximum. Such are the absolute values of a factor's elements, from which its scale is computed.
std::unordered_map<const Op*, const Op*> maximaOf(const Item& func);
/// Whether each element of an op's result is an element of its operand or a zero.
bool movesElements(const Op& op);
/// The type that a value has, or had in memory before it was widened and its elements were moved.
DType factorOf(const Value& value);
/// Sets the precision of a product of 16-bit factors, or of f32 factors widened from them, to that 16-bit type, where the
/// target has matrix units for it. Rounding such operands changes none of them.
void useUnits(Op& op, const Target& target);
/// Whether an op adds two f32 values of its type.
bool isAddition(const Op& op);
/// The terms that are added up to these values, from the last value to the first; the terms of one from left to right. They
/// are found through additions whose results nothing else reads.
std::vector<Value*> termsOf(std::vector<Value*> sums);
/// Where a tg.pad with zeros along one axis puts its operand.
struct PadPlace {
  int axis = 0;
  int64_t low = 0;  ///< the operand's first index along the axis
};
/// Nothing for other ops, other pads, and pads along several axes or none.
std::optional<PadPlace> padPlace(const Op& op);
/// Whether an op computes with f16 or bf16 itself, rather than move or name elements, or cast.
bool computesNarrow(const Op& op);
/// Whether a value, looked at through reshapes, is the result of an inline op (see isInline).
bool isInlineBelowReshapes(Value& value);
/// Limits chains of views, which are copied into their readers: every so many views, one becomes a kernel's result and is
/// added to `forced`.
void boundViews(const Item& func, std::unordered_map<const Op*, const Op*>& forced);
/// Stores, by adding them to `forced`, transposed images whose overlapping windows a kernel reads, such as those of a
/// depthwise convolution behind a layer norm: it would read each element once for every window that holds it, and
/// neighbours far apart. A depthwise 7x7 took 985 us on an H100 for 32 images of 56x56 with 96 channels last, 90 with
/// channels first.
void storeTurned(const Item& func, const Target& target, std::unordered_map<const Op*, const Op*>& forced);
/// Whether an op draws random numbers.
bool draws(const Op& op);
/// Whether an op is arithmetic that costs no more than reading its operands.
bool isCheapMap(const Op& op);
/// Whether an op stays outside of kernels because it names memory: parameters, states, updates, adjoined values, captures,
/// parameter gradients and returns.
bool isBoundary(const Op& op);
/// Whether the op is no composite, or one kernel computes it well. False for these composites:
///   - a product with views around it: the views go to their readers, the product gets its own schedule
///   - categorical: a draw over rows, a map and a reduction
///   - an attention gradient, which is two kernels, and an attention that is faster with stored scores
///   - what binds more than the target allows
///   - what would leave most of the device idle, or search windows again and again
bool isOneKernel(const Op& op, const Target& target);
/// The value at the start of a chain of reshapes (and stop_gradient), which keep the order of elements.
Value* throughReshapes(Value* value);

}  // namespace tg::fuse
