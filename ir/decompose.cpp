// SPDX-License-Identifier: Apache-2.0
// The table of decompositions. A composite row without an entry here does not compile.
#include "ir/decompose/decompose.h"

namespace tg {
namespace {

using Expand = decomposition::Results (*)(const decomposition::Composite&);

/// The expansion of a composite row; rows that are primitives have none. (`given` beside the pointer,
/// because a sanitized build does not compare pointers at compile time.)
struct Expansion {
  bool given = false;
  Expand expand = nullptr;
};
template <Opcode>
constexpr Expansion kExpand{};
#define EXPAND(id, fn) \
  template <>          \
  constexpr Expansion kExpand<Opcode::id> = {true, decomposition::fn}
EXPAND(softmax, softmax);
EXPAND(softmax_grad, softmaxGrad);
EXPAND(log_softmax, logSoftmax);
EXPAND(log_softmax_grad, logSoftmaxGrad);
EXPAND(cross_entropy, crossEntropy);
EXPAND(cross_entropy_grad, crossEntropyGrad);
EXPAND(layer_norm, layerNorm);
EXPAND(layer_norm_grad, layerNormGrad);
EXPAND(rope, rope);
EXPAND(rms_norm, rmsNorm);
EXPAND(rms_norm_grad, rmsNormGrad);
EXPAND(gelu, gelu);
EXPAND(gelu_grad, geluGrad);
EXPAND(clamp, clamp);
EXPAND(leaky_relu, leakyRelu);
EXPAND(logsumexp, logSumExp);
EXPAND(embedding, embedding);
EXPAND(adam_update, adamUpdate);
EXPAND(swap_axes, swapAxes);
EXPAND(stack, stack);
EXPAND(sum_of_squares, sumOfSquares);
EXPAND(split, split);
EXPAND(tile, tile);
EXPAND(where_causal, whereCausal);
EXPAND(sgd_update, sgdUpdate);
EXPAND(conv2d, conv2d);
EXPAND(conv2d_grad_input, conv2dGradInput);
EXPAND(conv2d_grad_weight, conv2dGradWeight);
EXPAND(conv_transpose2d, convTranspose2d);
EXPAND(max_pool2d, maxPool2d);
EXPAND(max_pool2d_grad, maxPool2dGrad);
EXPAND(avg_pool2d, avgPool2d);
EXPAND(avg_pool2d_grad, avgPool2dGrad);
EXPAND(upsample_nearest2d, upsampleNearest2d);
EXPAND(attention, attention);
EXPAND(attention_grad, attentionGrad);
EXPAND(attention_grad_q, attentionGradQ);
EXPAND(attention_grad_kv, attentionGradKv);
EXPAND(dropout, dropout);
EXPAND(categorical, categorical);
#undef EXPAND

namespace check {
using namespace table;
#define OP(id, name, slots, attrs, results, regions, traits, ...)      \
  static_assert(bool((traits)&composite) == kExpand<Opcode::id>.given, \
                "a composite row has a decomposition, and no other row: " name);
#include "ir/ops.def"
#undef OP
}  // namespace check

Expand expansionOf(Opcode code) {
  switch (code) {
#define OP(id, ...) \
  case Opcode::id:  \
    return kExpand<Opcode::id>.expand;
#include "ir/ops.def"
#undef OP
  default: return nullptr;
  }
}

}  // namespace

std::vector<Value*> decompose(const Op& op, const std::vector<Value*>& operands, Builder& builder) {
  Expand expand = expansionOf(op.code);
  assert(expand && "decompose: not a composite op");
  // Narrow reals are widened first and only results are rounded: the steps between are f32, as in a kernel.
  const bool moves = op.info().fusion == table::Fusion::view;
  std::vector<Value*> wide = operands, results;
  for (Value*& value : wide)
    if (!moves && isNarrow(value->type.dtype)) value = builder.cast(value, computeType(value->type.dtype));
  for (const TensorExpr& result : expand({op, wide, builder})) {
    const DType dtype = op.result(static_cast<int>(results.size()))->type.dtype;
    results.push_back(isNarrow(dtype) ? builder.cast(result.value, dtype) : result.value);
  }
  return results;
}

}  // namespace tg
