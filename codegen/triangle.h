// SPDX-License-Identifier: Apache-2.0
// Matrices of which only a triangle counts, as causal attention makes them: products leave out what a mask
// hides and what is zero. Private to codegen/ and lower-kernels.
#pragma once

#include <functional>
#include <span>

#include "ir/module.h"

namespace tg {

// Elements of a value's last two axes are above the diagonal where column > row + columns - rows: the
// diagonal ends in the last row's last column.

/// What is known of a region's block arguments: whether all their elements above the diagonal are zero.
using KnownLower = std::function<bool(const Value&)>;

/// The same of any value of the region.
bool isLower(const Value& value, const KnownLower& known);

/// The same of a result of a function's op, through the kernels that lead to it.
bool resultIsLower(const Value& value);

/// Whether nothing depends on what a value of a region has above the diagonal: it is masked, or times zero.
/// `free` says it of the region's results, by slot: `yields`.
bool isReadBelow(const Block& body, std::span<Value* const> yields, const Value& value,
                 const KnownLower& known, const std::function<bool(size_t slot)>& free);

/// The same of a result of a function's op, in all kernels that read it.
bool resultIsReadBelow(const Value& value);

}  // namespace tg
