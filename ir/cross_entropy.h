// SPDX-License-Identifier: Apache-2.0
// The meaning of cross_entropy's attributes, shared by its decomposition, its gradient and the passes that split its
// mean.
#pragma once

#include <optional>
#include <vector>

#include "ir/tensor_expr.h"

namespace tg {

/// The target value whose rows are ignored, if the op has one.
std::optional<int64_t> ignoredTarget(const Op& crossEntropy);

/// The divisor of a mean over rows when the op has an ignore_index: the number of targets that are not ignored, at
/// least 1. Rank 0, of `dtype`. The targets may be in pieces.
TensorExpr countedRows(const Op& crossEntropy, const std::vector<TensorExpr>& targets, DType dtype);

}  // namespace tg
