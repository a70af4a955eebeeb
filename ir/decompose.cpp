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
  std::vector<Value*> results;
  for (const TensorExpr& result : expand({op, operands, builder})) results.push_back(result.value);
  return results;
}

}  // namespace tg
