// gelu and its gradient, clamp, leaky_relu, embedding, the Adam update.
#include <cmath>

#include "ir/decompose/decompose.h"

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
  bool approximate = composite.op.word("approximate") == "tanh";
  TensorExpr s = approximate ? tanh(tanhArgument(x)) : erf(x * kRootHalf);
  return {0.5 * x * (1.0 + s)};
}

// dy·(Φ(x) + x·φ(x)), or dy·((1 + t)/2 + x/2·(1 - t²)·√(2/π)(1 + 3·0.044715x²))
Results geluGrad(const Composite& composite) {
  TensorExpr x = composite[0], dy = composite[1];
  if (composite.op.word("approximate") == "tanh") {
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
  return {min(max(composite[0], composite.op.realAttr("lo")), composite.op.realAttr("hi"))};
}

Results leakyRelu(const Composite& composite) {
  TensorExpr x = composite[0];
  return {select(gt(x, 0.0), x, x * composite.op.realAttr("slope"))};
}

Results embedding(const Composite& composite) { return {composite[0].binary(Opcode::gather, composite[1])}; }

// m' = β₁m + (1-β₁)g, v' = β₂v + (1-β₂)g², p' = (1-shrink)·p - lr_t·m'/(√v' + ε). 1-β is formed in
// f64 and rounded once: 1 - f32(0.999) is 1.3e-5 off.
Results adamUpdate(const Composite& composite) {
  const Op& op = composite.op;
  TensorExpr p = composite[0], g = composite[1], m = composite[2], v = composite[3];
  TensorExpr lr = composite[4], shrink = composite[5];
  double beta1 = op.realAttr("beta1"), beta2 = op.realAttr("beta2");
  TensorExpr m2 = beta1 * m + (1 - beta1) * g;
  TensorExpr v2 = beta2 * v + (1 - beta2) * square(g);
  TensorExpr step = lr * m2 / (sqrt(v2) + op.realAttr("eps"));
  TensorExpr kept = shrink ? (1.0 - shrink) * p : p;
  return {kept - step, m2, v2};
}

}  // namespace tg::decomposition
