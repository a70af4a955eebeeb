// SPDX-License-Identifier: Apache-2.0
// rope, rotate-half form (Su et al., "RoFormer", 2021): the halves of a row are the two coordinates.
#include <cmath>

#include "ir/decompose/decompose.h"

#include "ir/op_view.h"

namespace tg::decomposition {

static TensorExpr rotated(const TensorExpr& x, const TensorExpr& cosine, const TensorExpr& sine) {
  const int64_t width = x.shape().back();
  const int last = x.rank() - 1;
  TensorExpr a = x.part(last, 0, width / 2), b = x.part(last, width / 2, width);
  TensorExpr c = cosine.cast(x.dtype()), s = sine.cast(x.dtype());
  Value* joined = x.builder->op(Opcode::concat, {(a * c - b * s).value, (b * c + a * s).value},
                                {{"axis", Attr::of(last)}});
  return {x.builder, joined};
}

// θ = (offset + t)·base^(-2i/D); (a, b) becomes (a·cos θ - b·sin θ, b·cos θ + a·sin θ)
Results expand(at::rope, const Composite& composite) {
  TensorExpr q = composite[at::rope::q], k = composite[at::rope::k];
  const Op& op = composite.op;
  const int64_t rows = q.shape()[q.rank() - 2], width = q.shape().back();
  const double slope = -2 * std::log(as::rope(op).base()) / static_cast<double>(width);
  TensorExpr position = iota(composite.builder, {rows, 1}, 0).cast(DType::f32);
  if (int64_t offset = as::rope(op).offset()) position = position + static_cast<double>(offset);
  TensorExpr angle = position * exp(iota(composite.builder, {1, width / 2}, 1).cast(DType::f32) * slope);
  TensorExpr sine = sin(angle), cosine = cos(angle);
  if (as::rope(op).inverse()) sine = -sine;
  return {rotated(q, cosine, sine), rotated(k, cosine, sine)};
}

}  // namespace tg::decomposition
