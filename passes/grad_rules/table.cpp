// SPDX-License-Identifier: Apache-2.0
// The table of gradient rules: ops with a scalar use the scalar table, kernel ops have none, all others use the rule of
// their family.
#include "passes/grad_rules/entries.h"

namespace tg {

TensorExpr GradContext::sibling(Opcode code, const std::vector<TensorExpr>& operands, AttrList attrs) const {
  std::vector<Value*> values;
  for (const TensorExpr& operand : operands) values.push_back(operand.value);
  for (const table::AttrRow& row : info(code).attrs)
    if (op.info().attr(row.name) && !find(attrs, row.name))
      attrs.push_back({std::string(row.name), op.attr(row.name)});
  return {&builder, builder.op(code, values, std::move(attrs))};
}

namespace grad_rules {

GradEntry gradient(at::param) {
  return noGradient("it is a leaf, where a parameter's gradient is collected");
}
GradEntry gradient(at::state) { return noGradient("it is a leaf"); }
GradEntry gradient(at::constant) { return noGradient("it is a leaf"); }
GradEntry gradient(at::iota) { return noGradient("it is a leaf"); }
GradEntry gradient(at::causal_mask) { return noGradient("it is a leaf"); }
GradEntry gradient(at::update) { return noGradient("it has no result"); }
GradEntry gradient(at::param_grad) { return noGradient("it has no result"); }
GradEntry gradient(at::capture) { return noGradient("it has no result"); }
GradEntry gradient(at::return_) { return noGradient("it has no result"); }
GradEntry gradient(at::grad) {
  return noGradient("append-grad expands it before it differentiates what reads it");
}
GradEntry gradient(at::fused) { return notInStage("stages fused and planned only"); }
GradEntry gradient(at::adjoin) { return notInStage("stages fused and planned only"); }
GradEntry gradient(at::disjoin) { return notInStage("stages fused and planned only"); }
GradEntry gradient(at::yield) { return notInStage("stages fused and planned only"); }
GradEntry gradient(at::home) { return notInStage("stages kernel and spirv only"); }
GradEntry gradient(at::dispatch) { return notInStage("stages kernel and spirv only"); }
GradEntry gradient(at::barrier) { return notInStage("stages kernel and spirv only"); }
GradEntry gradient(at::collective_begin) { return notInStage("stages kernel and spirv only"); }
GradEntry gradient(at::collective_wait) { return notInStage("stages kernel and spirv only"); }
GradEntry gradient(at::fill) { return notInStage("stages planned, kernel and spirv only"); }
GradEntry gradient(at::copy) { return notInStage("stages kernel and spirv only"); }

// A template, so that ops with a scalar need no definition of gradient().
template <class Row, Scalar scalar>
static GradEntry entryOf() {
  if constexpr (scalar != Scalar::none)
    return {GradKind::byScalar, info(scalar).grads, byScalar};
  else
    return gradient(Row{});
}

}  // namespace grad_rules

static std::vector<GradEntry> makeTable() {
  using namespace grad_rules;
  return {
#define OP(id, name, slots, attrs, results, regions, traits, where, fusion, scalar, ...) \
  entryOf<at::id, Scalar::scalar>(),
#include "ir/ops.def"
#undef OP
#define OP(id, ...) GradEntry{GradKind::notInStage, "an op of the kernel dialect", nullptr},
#include "ir/kernel/ops.def"
#undef OP
  };
}

const GradEntry& gradEntry(Opcode code) {
  static const std::vector<GradEntry> kTable = makeTable();
  return kTable[static_cast<int>(code)];
}

std::string_view name(GradKind kind) {
  constexpr std::string_view kNames[] = {"rule", "by scalar", "decomposes", "not differentiable",
                                         "not in this stage"};
  return kNames[static_cast<int>(kind)];
}

}  // namespace tg
