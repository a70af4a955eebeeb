// SPDX-License-Identifier: Apache-2.0
// gelu and its gradient, clamp, leaky_relu, elu, embedding.

#include "ir/decompose/decompose.h"

#include "ir/op_view.h"

namespace tg::decomposition {

static constexpr double kInvRootTwoPi = 0.39894228040143268;   // 1/√(2π)
static constexpr double kRootTwoOverPi = 0.79788456080286536;  // √(2/π)
static constexpr double kCubic = 0.044715;

/// 2u with u = √(2/π)·(x + 0.044715·x³). (1 + tanh(u))/2 = 1/(1 + e^-2u): this form needs one exponential and is
/// exact in the left tail, where the sum cancels.
static TensorExpr tanhArgument(const TensorExpr& x) {
  return (2 * kRootTwoOverPi) * x * (1.0 + kCubic * square(x));
}

// x·Φ(x), or x·s with s = (1 + tanh(u))/2
Results expand(at::gelu, const Composite& composite) {
  TensorExpr x = composite[0];
  if (as::gelu(composite.op).approximate() == "tanh") return {x * sigmoid(tanhArgument(x))};
  return {x * normalCdf(x)};
}

// dy·(Φ(x) + x·φ(x)), or dy·(s + x·s·(1 - s)·2·√(2/π)(1 + 3·0.044715x²))
Results expand(at::gelu_grad, const Composite& composite) {
  TensorExpr x = composite[at::gelu_grad::x], dy = composite[at::gelu_grad::dy];
  if (as::gelu_grad(composite.op).approximate() == "tanh") {
    // With e = e^-2u, s is 1/(1 + e) and 1 - s is e·s, which does not cancel. Where e overflows, s is 0; bounding e
    // keeps the product from being 0·∞.
    const TensorExpr e = exp(-tanhArgument(x)), s = 1.0 / (1.0 + e);
    const TensorExpr slope = 2 * kRootTwoOverPi + (6 * kCubic * kRootTwoOverPi) * square(x);
    return {dy * (s + x * s * (min(e, 0x1p126) * s) * slope)};
  }
  TensorExpr phi = exp(-0.5 * square(x)) * kInvRootTwoPi;
  return {dy * (normalCdf(x) + x * phi)};
}

// min(max(x, lo), hi): at a tie the left operand is taken, so that the gradient passes at the bounds
Results expand(at::clamp, const Composite& composite) {
  return {min(max(composite[0], as::clamp(composite.op).lo()), as::clamp(composite.op).hi())};
}

Results expand(at::leaky_relu, const Composite& composite) {
  TensorExpr x = composite[0];
  return {select(gt(x, 0.0), x, x * as::leaky_relu(composite.op).slope())};
}

// relu(x) + alpha·(e^min(x, 0) - 1). For x above 0 the exponential of x might overflow and its gradient be 0·∞. At 0 relu
// has no gradient, and the minimum passes all of it on.
Results expand(at::elu, const Composite& composite) {
  TensorExpr x = composite[at::elu::x];
  return {x.unary(Opcode::relu) + as::elu(composite.op).alpha() * min(x, 0.0).unary(Opcode::expm1)};
}

Results expand(at::embedding, const Composite& composite) {
  return {composite[at::embedding::table].binary(Opcode::gather, composite[at::embedding::ids])};
}

}  // namespace tg::decomposition
