// SPDX-License-Identifier: Apache-2.0
// Rows of tensors: what reductions and row composites take at a time, and sums over neighbouring rows.
#pragma once

#include <cstdint>
#include <optional>

#include "ir/module.h"

namespace tg {

/// Rows of a region whose reductions run along the last elements of a value.
struct RowSpace {
  int64_t rows = 0, length = 0;
  bool operator==(const RowSpace&) const = default;
};

/// The rows an op reduces along: of reductions over trailing axes and of row composites over the
/// last axis, behind which axes of extent 1 may stand. Nothing for other ops.
std::optional<RowSpace> rowSpaceOf(const Op& op);

/// The rows of a kernel's ops, where they have any: all of them have the same.
std::optional<RowSpace> rowSpaceOf(const OpList& ops);

/// How many neighbouring rows each result of a sum adds up, of a tensor of these rows as [.., rows, length]: the partial
/// sums of the gradient of a gain or bias. 0 for other ops.
int64_t rowsPerSum(const Op& op, const RowSpace& rows);
/// The same of the sums among a kernel's ops, all of which add up as many.
int64_t rowsPerSum(const OpList& ops, const RowSpace& rows);

}  // namespace tg
