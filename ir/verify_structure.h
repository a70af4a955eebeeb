// SPDX-License-Identifier: Apache-2.0
// The structural guarantees of parsed text, checked for a module that was built or changed in memory.
#pragma once

#include "ir/module.h"
#include "ir/result.h"

namespace tg {

/// Regions, operands, attributes and locations are nested at most this deep, so that recursion over them is bounded.
constexpr int kMaxNesting = 64;
/// Offsets and sizes in bytes, and pitches in elements, are below these limits, so that sums and products of numbers
/// in a text fit 64 bits.
constexpr int64_t kMaxBytes = int64_t{1} << 50, kMaxPitch = int64_t{1} << 20;

/// Whether the name can be written after '%' or '@'.
bool isSymbolName(std::string_view name);

/// Checks the operands of one op by themselves: no null values, and they fill the slots of its row.
Result<void> verifyOperands(const Op& op);

/// Checks the assumptions of all code that reads a func or kernel: no null pointers, operands that fill the op's
/// slots, values that are defined before they are used and have unique names, results that point to their op, region
/// arguments that the op binds, types that have a size. Follows no pointer before it is known to be valid. The error
/// holds only the first finding, because others may follow from it.
Result<void> verifyStructure(const Item& item, const Module& module);

/// Checks that no tensor has more than kMaxElements elements. A pass may compute sizes from a valid module's that
/// exceed the limit, which is no error of the pass.
Result<void> verifySizes(const Module& module);

/// Checks that the names of a module and its items can be written, and that no two items of a kind share a name;
/// params and states count as one kind.
Result<void> verifyNames(const Module& module);

}  // namespace tg
