// SPDX-License-Identifier: Apache-2.0
// A model with gradients of one's choice, for the tests of optimizers.
#pragma once

#include <vector>

#include "runtime/interp/interp.h"

namespace tg::test {

using Doubles = std::vector<double>;

/// The loss a·w + c·b has the constant gradients a and c.
inline constexpr const char* kLinear = R"(module @m {
  param @w : tensor<3xf32> {init = randn(1.0)}
  param @b : tensor<2xf32> {init = zeros}
  func @train(%a: tensor<3xf32>, %c: tensor<2xf32>) -> (loss: tensor<f32>) {
    %w = tg.param @w : tensor<3xf32>
    %b = tg.param @b : tensor<2xf32>
    %wa = tg.mul %w, %a : tensor<3xf32>
    %bc = tg.mul %b, %c : tensor<2xf32>
    %s = tg.sum %wa {axes = [0]} : tensor<f32>
    %t = tg.sum %bc {axes = [0]} : tensor<f32>
    %loss = tg.add %s, %t : tensor<f32>
    return %loss : tensor<f32>
  }
}
)";

inline NdArray vec(const Doubles& data) {
  return {Type::tensor(DType::f32, {static_cast<int64_t>(data.size())}), data};
}

}  // namespace tg::test
