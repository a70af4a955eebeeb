// SPDX-License-Identifier: Apache-2.0
// gelu and its gradient, clamp, leaky_relu, embedding.
#include <cmath>

#include "ir/decompose/decompose.h"

#include "ir/op_view.h"

namespace tg::decomposition {

static constexpr double kRootHalf = 0.70710678118654752;       // 1/√2
static constexpr double kInvRootTwoPi = 0.39894228040143268;   // 1/√(2π)
static constexpr double kRootTwoOverPi = 0.79788456080286536;  // √(2/π)
static constexpr double kCubic = 0.044715;

/// √(2/π)·(x + 0.044715·x³)
static TensorExpr tanhArgument(const TensorExpr& x) {
  return (x + kCubic * (square(x) * x)) * kRootTwoOverPi;
}

// x·Φ(x), or x/2·(1 + tanh(√(2/π)(x + 0.044715x³)))
Results gelu(const Composite& composite) {
  TensorExpr x = composite[0];
  bool approximate = as::gelu(composite.op).approximate() == "tanh";
  TensorExpr s = approximate ? tanh(tanhArgument(x)) : erf(x * kRootHalf);
  return {0.5 * x * (1.0 + s)};
}

// dy·(Φ(x) + x·φ(x)), or dy·((1 + t)/2 + x/2·(1 - t²)·√(2/π)(1 + 3·0.044715x²))
Results geluGrad(const Composite& composite) {
  TensorExpr x = composite[at::gelu_grad::x], dy = composite[at::gelu_grad::dy];
  if (as::gelu_grad(composite.op).approximate() == "tanh") {
    TensorExpr t = tanh(tanhArgument(x));
    TensorExpr slope = kRootTwoOverPi * (1.0 + (3 * kCubic) * square(x));
    return {dy * (0.5 * (1.0 + t) + 0.5 * x * (1.0 - square(t)) * slope)};
  }
  TensorExpr phi = exp(-0.5 * square(x)) * kInvRootTwoPi;
  TensorExpr cdf = 0.5 * (1.0 + erf(x * kRootHalf));
  return {dy * (cdf + x * phi)};
}

// min(max(x, lo), hi): ties go to the left, so that the gradient passes at the bounds
Results clamp(const Composite& composite) {
  return {min(max(composite[0], as::clamp(composite.op).lo()), as::clamp(composite.op).hi())};
}

Results leakyRelu(const Composite& composite) {
  TensorExpr x = composite[0];
  return {select(gt(x, 0.0), x, x * as::leaky_relu(composite.op).slope())};
}

Results embedding(const Composite& composite) {
  return {composite[at::embedding::table].binary(Opcode::gather, composite[at::embedding::ids])};
}

}  // namespace tg::decomposition
