// SPDX-License-Identifier: Apache-2.0
// The room of decompositions: what each composite row of the op table is made of.
#pragma once

#include <vector>

#include "ir/builder.h"
#include "ir/op_view.h"
#include "ir/tensor_expr.h"

namespace tg::decomposition {

/// A composite op about to be expanded: its attributes, and operands that may not be its own.
struct Composite {
  const Op& op;
  const std::vector<Value*>& operands;
  Builder& builder;

  /// Operand `index`; empty when an optional one is missing.
  TensorExpr operator[](size_t index) const {
    return {&builder, index < operands.size() ? operands[index] : nullptr};
  }
};
using Results = std::vector<TensorExpr>;

/// What the composite of a row computes, in other ops. Each row with the trait `composite` has a definition, in the
/// file of its family; a program without it does not link, and says which row it lacks.
#define OP(id, ...) Results expand(at::id, const Composite& composite);
#include "ir/ops.def"
#undef OP

/// Where row i may look causally: column j <= i + (columns - rows), over the last two axes of x's shape.
TensorExpr causalMask(const TensorExpr& x);

/// x where the mask holds and the lowest finite value elsewhere, which exp makes 0 without an inf - inf;
/// x itself where the mask is empty.
TensorExpr masked(const TensorExpr& mask, const TensorExpr& x);

/// a·b, each as it is or transposed.
inline TensorExpr product(const TensorExpr& a, const TensorExpr& b, bool transposeA, bool transposeB) {
  AttrList attrs = {{"transpose_a", Attr::boolean(transposeA)}, {"transpose_b", Attr::boolean(transposeB)}};
  return {a.builder, a.builder->op(Opcode::matmul, {a.value, b.value}, attrs)};
}

/// x minus its maximum along the axis, which is under stop_gradient.
TensorExpr shifted(const TensorExpr& x, int64_t axis);

}  // namespace tg::decomposition
