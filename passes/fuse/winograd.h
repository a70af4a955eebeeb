// SPDX-License-Identifier: Apache-2.0
// 3x3 convolutions with fewer multiplications; a part of split-reductions.
#pragma once

#include "ir/target.h"
#include "ir/tensor_expr.h"

namespace tg::fuse {

/// Computes a 3x3 convolution of f32 at stride 1, or a gradient of one, by Winograd's algorithm (A. Lavin and S. Gray, Fast
/// algorithms for convolutional neural networks, 2016): 16 multiplications for a tile of 2x2 results instead of 36. The
/// transforms are kernels that it adds to the builder's module. With tiles of 2x2, rounding errors are as large as those of
/// a sum over windows.
///
/// Empty where windows are better: the op is another convolution than those above or has few channels, the target multiplies
/// in registers, or a transformed image, which has four times the elements, would take more than `most` bytes.
TensorExpr winograd(Builder& builder, const Op& op, const Target& target, int64_t most);

}  // namespace tg::fuse
