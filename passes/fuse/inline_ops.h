// SPDX-License-Identifier: Apache-2.0
// How ops stand to kernels: those that are copied into every kernel that reads them, those that stand outside
// of kernels, those that take several. All passes from flatten-optimizer to merge-kernels ask here.
#pragma once

#include <unordered_map>

#include "ir/module.h"
#include "ir/target.h"

namespace tg::fuse {

/// Whether an op is copied into every region that reads it: views, constants, iota, masks computed from
/// those, casts from memory's type, the scales of products of halves.
bool isInline(const Op& op);
/// Whether an op is a cast from memory's type to the one kernels compute with, which changes no value.
bool isWidening(const Op& op);
/// The maximum that alone reads what an op computes element by element, maybe through more such ops and views: the sizes
/// of a factor's elements, for its scale. Of the ops of a function that have one.
std::unordered_map<const Op*, const Op*> maximaOf(const Item& func);
/// Whether an op gives elements of its operand, and besides them at most zeros.
bool movesElements(const Op& op);
/// The type that a value has, or had before it was widened and its elements were moved.
DType factorOf(const Value& value);
/// A product of tensors of 16 bits, or of such as f32, may round its operands to their type, as that changes none of
/// them: it says so where the target has units for such products.
void useUnits(Op& op, const Target& target);
/// Whether an op computes with f16 or bf16 itself: it neither moves nor names elements, nor casts.
bool computesNarrow(const Op& op);
/// Whether a value is a view, constant or iota other than reshapes of something that stands in memory.
bool isInlineBelowReshapes(Value& value);
/// Views are copied into their readers; of a long chain of them, one in so many becomes a kernel's result:
/// adds it to `forced`.
void boundViews(const Item& func, std::unordered_map<const Op*, const Op*>& forced);
/// Whether an op draws random numbers.
bool draws(const Op& op);
/// Arithmetic that is no more work than to read what it computes.
bool isCheapMap(const Op& op);
/// Whether an op stands for memory outside of kernels: parameters, states, updates, what is returned or kept.
bool isBoundary(const Op& op);
/// Whether one kernel computes the op, if it is a composite: no product with views around it, whose views go
/// to what reads them and whose product gets a schedule of its own; no draw over rows, a map and a reduction;
/// no attention gradient, which is two kernels, and no attention that is faster through its scores; nothing
/// that binds more than the target allows; nothing whose one kernel would leave most of the device idle or read windows
/// again and again.
bool isOneKernel(const Op& op, const Target& target);
/// The value a chain of order-preserving views starts from.
Value* throughReshapes(Value* value);

}  // namespace tg::fuse
