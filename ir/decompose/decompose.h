// SPDX-License-Identifier: Apache-2.0
// The room of decompositions: one entry for each composite row of the op table.
#pragma once

#include <vector>

#include "ir/builder.h"
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

// By family; the formulas stand in each file.
Results softmax(const Composite& composite);
Results softmaxGrad(const Composite& composite);
Results logSoftmax(const Composite& composite);
Results logSoftmaxGrad(const Composite& composite);
Results crossEntropy(const Composite& composite);
Results crossEntropyGrad(const Composite& composite);
Results rope(const Composite& composite);
Results rmsNorm(const Composite& composite);
Results rmsNormGrad(const Composite& composite);
Results layerNorm(const Composite& composite);
Results layerNormGrad(const Composite& composite);
Results gelu(const Composite& composite);
Results geluGrad(const Composite& composite);
Results clamp(const Composite& composite);
Results leakyRelu(const Composite& composite);
Results logSumExp(const Composite& composite);
Results embedding(const Composite& composite);
Results adamUpdate(const Composite& composite);
Results swapAxes(const Composite& composite);
Results stack(const Composite& composite);
Results split(const Composite& composite);
Results tile(const Composite& composite);
Results whereCausal(const Composite& composite);

/// Where row i may look causally: column j <= i + (columns - rows), over the last two axes of x's shape.
TensorExpr causalMask(const TensorExpr& x);
Results sgdUpdate(const Composite& composite);
Results sumOfSquares(const Composite& composite);
Results conv2d(const Composite& composite);
Results conv2dGradInput(const Composite& composite);
Results conv2dGradWeight(const Composite& composite);
Results convTranspose2d(const Composite& composite);
Results maxPool2d(const Composite& composite);
Results maxPool2dGrad(const Composite& composite);
Results avgPool2d(const Composite& composite);
Results avgPool2dGrad(const Composite& composite);
Results upsampleNearest2d(const Composite& composite);
Results attention(const Composite& composite);
Results attentionGrad(const Composite& composite);
Results attentionGradQ(const Composite& composite);
Results attentionGradKv(const Composite& composite);

/// x where the mask holds and the lowest finite value elsewhere, which exp makes 0 without an inf - inf;
/// x itself where the mask is empty.
TensorExpr masked(const TensorExpr& mask, const TensorExpr& x);
Results dropout(const Composite& composite);
Results categorical(const Composite& composite);

/// a·b, each as it is or transposed.
inline TensorExpr product(const TensorExpr& a, const TensorExpr& b, bool transposeA, bool transposeB) {
  AttrList attrs = {{"transpose_a", Attr::boolean(transposeA)}, {"transpose_b", Attr::boolean(transposeB)}};
  return {a.builder, a.builder->op(Opcode::matmul, {a.value, b.value}, attrs)};
}

/// x minus its maximum along the axis, which is under stop_gradient.
TensorExpr shifted(const TensorExpr& x, int64_t axis);

}  // namespace tg::decomposition
