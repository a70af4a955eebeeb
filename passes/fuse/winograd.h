// SPDX-License-Identifier: Apache-2.0
// 3x3 convolutions with fewer multiplications; a part of split-reductions.
#pragma once

#include "ir/target.h"
#include "ir/tensor_expr.h"

namespace tg::fuse {

/// Computes a 3x3 convolution of f32 at stride 1, or a gradient of one, by Winograd's algorithm (A. Lavin and S. Gray, Fast
/// algorithms for convolutional neural networks, 2016): 16 multiplications for a tile of 2x2 results instead of 36. The
/// transforms are kernels that it adds to the builder's module. Tiles are not larger because rounding errors grow with them:
/// with 2x2 the largest error is 1.5 to 3 times that of a sum over windows, the root mean square 1.7 to 2.4 times.
///
/// Empty where windows are better: the op is another convolution than those above or has few channels, the target multiplies
/// in registers, or a transformed image, which has four times the elements, would take more than `most` bytes.
TensorExpr winograd(Builder& builder, const Op& op, const Target& target, int64_t most);

}  // namespace tg::fuse
