// SPDX-License-Identifier: Apache-2.0
// Replaces composite ops by their decompositions.
#include "ir/decompose/decompose.h"

namespace tg {
namespace {

using Expand = decomposition::Results (*)(const decomposition::Composite&);

template <class Row, bool isComposite>
Expand expandRow() {
  if constexpr (isComposite)
    return [](const decomposition::Composite& of) { return decomposition::expand(Row{}, of); };
  else
    return nullptr;
}

/// The decomposition of a composite op; null for primitives.
Expand expansionOf(Opcode code) {
  using namespace table;
  switch (code) {
#define OP(id, name, slots, attrs, results, regions, traits, ...) \
  case Opcode::id:                                                \
    return expandRow<at::id, bool((traits)&composite)>();
#include "ir/ops.def"
#undef OP
  default: return nullptr;
  }
}

}  // namespace

std::vector<Value*> decompose(const Op& op, const std::vector<Value*>& operands, Builder& builder) {
  Expand expand = expansionOf(op.code);
  assert(expand && "decompose: not a composite op");
  // Operands of 16 bits are widened first and only the results are rounded: the steps between are f32, as in a
  // kernel.
  const bool moves = op.info().fusion == table::Fusion::view;
  std::vector<Value*> wide = operands, results;
  for (Value*& value : wide)
    if (!moves) value = builder.cast(value, computeType(value->type.dtype));
  for (const TensorExpr& result : expand({op, wide, builder})) {
    const DType dtype = op.result(static_cast<int>(results.size()))->type.dtype;
    results.push_back(builder.cast(result.value, dtype));
  }
  return results;
}

}  // namespace tg
