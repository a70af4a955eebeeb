// SPDX-License-Identifier: Apache-2.0
// Decompositions: for each composite op of the table, the ops that compute it. Private to ir/decompose.
#pragma once

#include <vector>

#include "ir/builder.h"
#include "ir/op_view.h"
#include "ir/tensor_expr.h"

namespace tg::decomposition {

/// A composite op to be decomposed: its attributes, and operands that may differ from its own.
struct Composite {
  const Op& op;
  const std::vector<Value*>& operands;
  Builder& builder;

  /// Operand `index`; empty if an optional one is missing.
  TensorExpr operator[](size_t index) const {
    return {&builder, index < operands.size() ? operands[index] : nullptr};
  }
};
using Results = std::vector<TensorExpr>;

/// The results of a composite op, computed by other ops. Each row with the trait `composite` has a definition, in the
/// file of its family. A program that lacks one does not link, and the linker's message names the row.
#define OP(id, ...) Results expand(at::id, const Composite& composite);
#include "ir/ops.def"
#undef OP

/// Where causal row i may look: at columns j <= i + (columns - rows), over the last two axes of x's shape.
TensorExpr causalMask(const TensorExpr& x);

/// x where the mask holds, and the lowest finite value elsewhere: its exp is 0, and no inf - inf occurs. x itself if
/// the mask is empty.
TensorExpr masked(const TensorExpr& mask, const TensorExpr& x);

/// Which weights stay by the keep [..., T, S/16] of a tg.attention, as i1 [..., T, S].
TensorExpr staysOf(const TensorExpr& keep);

/// a·b, each optionally transposed.
inline TensorExpr product(const TensorExpr& a, const TensorExpr& b, bool transposeA, bool transposeB) {
  AttrList attrs = {{"transpose_a", Attr::boolean(transposeA)}, {"transpose_b", Attr::boolean(transposeB)}};
  return {a.builder, a.builder->op(Opcode::matmul, {a.value, b.value}, attrs)};
}

/// x minus its maximum along the axis; no gradient flows through the maximum.
TensorExpr shifted(const TensorExpr& x, int64_t axis);

}  // namespace tg::decomposition
