// SPDX-License-Identifier: Apache-2.0
// dropout and categorical. Both draw one uniform number for each element of their first operand.
#include "ir/decompose/decompose.h"

#include "ir/op_view.h"

namespace tg::decomposition {

static TensorExpr uniformLike(const TensorExpr& x, const Composite& composite) {
  AttrList attrs{{"salt", composite.op.attr("salt")}};
  if (const Attr* first = find(composite.op.attrs, "first")) attrs.push_back({"first", *first});
  Value* u = composite.builder.op(Opcode::random_uniform, {composite[at::dropout::rng].value}, attrs,
                                  {Type::tensor(DType::f32, x.shape())});
  return {x.builder, u};
}

// select(u >= p, x/(1-p), 0). Not a product with a mask: an infinite x that is dropped must give 0.
Results expand(at::dropout, const Composite& composite) {
  TensorExpr x = composite[0];
  const double p = as::dropout(composite.op).p();
  return {select(ge(uniformLike(x, composite), p), x * (1 / (1 - p)), 0.0)};
}

// argmax(logits - log e) with e = -log u, which is exponentially distributed. The maxima keep both logarithms finite:
// u is 0 once in 2^24 draws, and on a device the log of a number just below 1 may be 0.
Results expand(at::categorical, const Composite& composite) {
  TensorExpr logits = composite[0].cast(DType::f32);
  TensorExpr e = max(-log(max(uniformLike(logits, composite), 0x1p-25)), 0x1p-25);
  return {(logits - log(e)).unary(Opcode::argmax, {{"axis", composite.op.attr("axis")}})};
}

}  // namespace tg::decomposition
