// SPDX-License-Identifier: Apache-2.0
// The gradient of a product. All four combinations of transposed operands are products with transpose flags, never a
// transpose op. A right operand shared by the batch (a weight) gets one rank-2 product over batch and rows together, not a
// batched product and a sum. The gradient's products have the precision of the forward product: the rounding of operands
// is differentiated as the identity. For f32x3 they are in f32, as their operands have no scales yet.
#include "passes/grad_rules/entries.h"

#include "ir/op_view.h"

namespace tg::grad_rules {

/// A product in the precision of the forward product; f32 for f32x3.
static TensorExpr product(const GradContext& context, const TensorExpr& a, const TensorExpr& b,
                          bool transposeA, bool transposeB) {
  const std::string precision = as::matmul(context.op).precision();
  return {a.builder, a.builder->op(Opcode::matmul, {a.value, b.value},
                                   {{"transpose_a", Attr::boolean(transposeA)},
                                    {"transpose_b", Attr::boolean(transposeB)},
                                    {"precision", Attr::word(precision == "f32x3" ? "f32" : precision)}})};
}

/// Merges leading axes and rows: [B, T, N] becomes [B·T, N].
static TensorExpr flat(const TensorExpr& x) {
  int64_t columns = x.shape().back();
  return x.reshape({x.value->type.elements() / columns, columns});
}

/// Whether an operand is one matrix for all batch elements.
static bool isOneMatrix(const TensorExpr& x) {
  return x.value->type.elements() == x.shape().back() * x.shape()[x.rank() - 2];
}

// With A' = A or Aᵀ as the flag says, and B' likewise: r = A'·B', dA' = g·B'ᵀ, dB' = A'ᵀ·g. Where a flag is set, the
// operand's own gradient is the transpose, formed by swapping the factors. dB is built first: B is more often a weight, and
// its gradient is the last reader of A, so that A's gradient may be written in A's place.
static Grads matmul(const GradContext& context) {
  TensorExpr a = context.in(at::matmul::lhs), b = context.in(at::matmul::rhs), g = context.g();
  bool ta = as::matmul(context.op).transpose_a(), tb = as::matmul(context.op).transpose_b();
  Grads grads(2);
  // Flattening needs equal rows in a and g, in the same order: a has every batch axis of g, as b has none.
  bool together = !ta && g.rank() > 2 && isOneMatrix(b) && !isOneMatrix(a);
  if (context.wants(at::matmul::rhs) && together) {
    TensorExpr rows = flat(a), gRows = flat(g);
    grads[1] = (tb ? product(context, gRows, rows, true, false) : product(context, rows, gRows, true, false))
                   .reshape(b.shape());
  } else if (context.wants(at::matmul::rhs)) {
    grads[1] = tb ? product(context, g, a, true, ta) : product(context, a, g, !ta, false);
  }
  if (context.wants(0)) grads[0] = ta ? product(context, b, g, tb, true) : product(context, g, b, false, !tb);
  return grads;
}

GradEntry gradient(at::matmul) {
  return rule(
      "dA = g·Bᵀ, dB = Aᵀ·g, transposed where the operand is; summed over batch axes the operand lacks",
      matmul);
}

}  // namespace tg::grad_rules
