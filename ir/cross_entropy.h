// SPDX-License-Identifier: Apache-2.0
// What cross_entropy's attributes mean: shared by its decomposition, its gradient and the passes that
// take its mean apart.
#pragma once

#include <optional>

#include "ir/tensor_expr.h"

namespace tg {

/// The target whose rows do not count, when the op names one.
std::optional<int64_t> ignoredTarget(const Op& crossEntropy);

/// What a mean over rows divides by when the op has an ignore_index: how many targets are not that one,
/// and 1 when all are. Rank 0, of `dtype`.
TensorExpr countedRows(const Op& crossEntropy, const TensorExpr& targets, DType dtype);

}  // namespace tg
