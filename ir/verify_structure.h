// SPDX-License-Identifier: Apache-2.0
// What the parser guarantees of every text, checked of a module that lives in memory.
#pragma once

#include "ir/module.h"
#include "ir/result.h"

namespace tg {

/// Regions, operands, attributes and locations nest at most this deep: recursion over them is bounded.
constexpr int kMaxNesting = 64;
/// Offsets and sizes in bytes, and pitches in elements, stay below these: sums and products of what a text
/// says then fit 64 bits.
constexpr int64_t kMaxBytes = int64_t{1} << 50, kMaxPitch = int64_t{1} << 20;

/// Whether a text can spell it behind '%' or '@'.
bool isSymbolName(std::string_view name);

/// Checks the operands of one op by themselves: none is null, and they fill the slots of its row.
Result<void> verifyOperands(const Op& op);

/// Checks what everybody who reads a func or kernel takes for granted: no null pointer, operands that fill
/// the op's slots, values that are defined before they are used and named once, results that know their op,
/// region arguments that the op binds, types that have a size. Follows no pointer before it is known to be
/// good. The error holds the first finding; what follows it may be its consequence.
Result<void> verifyStructure(const Item& item, const Module& module);

/// Checks that no tensor has more than kMaxElements elements. A pass may compute sizes from those of a module
/// that pass a limit, which is no fault of the pass.
Result<void> verifySizes(const Module& module);

/// Checks that the names of a module and its items can be spelled, and those of items stand once for their kind; params
/// and states share theirs.
Result<void> verifyNames(const Module& module);

}  // namespace tg
