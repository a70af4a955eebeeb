// SPDX-License-Identifier: Apache-2.0
// Rows of tensors: the unit of reductions along trailing axes and of row composites; and sums over neighbouring rows.
#pragma once

#include <cstdint>
#include <optional>

#include "ir/module.h"

namespace tg {

/// The rows of a region whose reductions run along trailing axes.
struct RowSpace {
  int64_t rows = 0, length = 0;
  bool operator==(const RowSpace&) const = default;
};

/// The rows that an op works on: for reductions over trailing axes, and for row composites over the last axis; axes
/// of extent 1 may follow. Nothing for other ops.
std::optional<RowSpace> rowSpaceOf(const Op& op);

/// The rows of a kernel's ops; all ops that have rows must have the same. Nothing if none has.
std::optional<RowSpace> rowSpaceOf(const OpList& ops);

/// Whether the indices along an axis of an op's first operand are independent: what the results have at one of them depends
/// only on what the operands with this axis have at the same index. False if the op's traits do not say so.
bool keepsApart(const Op& op, int axis);

/// How many neighbouring rows each result of a sum adds, if the sum is of [.., rows, length]: the partial sums of the
/// gradient of a gain or bias. 0 for other ops.
int64_t rowsPerSum(const Op& op, const RowSpace& rows);
/// The same for the sums among a kernel's ops, which must all add the same number of rows.
int64_t rowsPerSum(const OpList& ops, const RowSpace& rows);

}  // namespace tg
