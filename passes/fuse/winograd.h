// SPDX-License-Identifier: Apache-2.0
// 3x3 convolutions with fewer multiplications; a part of split-reductions.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "ir/target.h"
#include "ir/tensor_expr.h"

namespace tg::fuse {

/// What all calls for one module share.
struct WinogradContext {
  int64_t most = 0;  ///< bytes that a transformed image may take
  std::map<std::string, std::string>
      kernels;  ///< the module's transforms: names, by what they compute on which shapes
};

/// Computes a 3x3 convolution of f32 at stride 1, or a gradient of one, by Winograd's algorithm (A. Lavin and S. Gray, Fast
/// algorithms for convolutional neural networks, 2016): 16 multiplications for a tile of 2x2 results instead of 36. The
/// transforms are kernels that it adds to the builder's module. Tiles are not larger because rounding errors grow with them:
/// with 2x2 the largest error is 1.5 to 3 times that of a sum over windows, the root mean square 1.7 to 2.4 times.
///
/// Empty for other convolutions; for few channels or tiles, where a sum over windows is faster; on targets that multiply in
/// registers; and if a transformed image, which has four times the elements, would take more than `context.most` bytes.
TensorExpr winograd(Builder& builder, const Op& op, const Target& target, WinogradContext& context);

}  // namespace tg::fuse
