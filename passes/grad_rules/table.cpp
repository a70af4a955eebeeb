// SPDX-License-Identifier: Apache-2.0
// The table of gradients: rows with a scalar by the scalar table, kernel ops never, the rest by the
// entry of their family. A row without an entry does not compile.
#include "passes/grad_rules/attention.h"
#include "passes/grad_rules/composite.h"
#include "passes/grad_rules/custom.h"
#include "passes/grad_rules/elementwise.h"
#include "passes/grad_rules/index.h"
#include "passes/grad_rules/matmul.h"
#include "passes/grad_rules/random.h"
#include "passes/grad_rules/reduce.h"
#include "passes/grad_rules/view.h"
#include "passes/grad_rules/window.h"

namespace tg {

namespace grad_rules {

TG_NO_GRAD(param, "it is a leaf: a parameter's gradient is collected here");
TG_NO_GRAD(state, "it is a leaf");
TG_NO_GRAD(constant, "it is a leaf");
TG_NO_GRAD(iota, "it is a leaf");
TG_NO_GRAD(causal_mask, "it is a leaf");
TG_NO_GRAD(update, "it has no result");
TG_NO_GRAD(param_grad, "it has no result");
TG_NO_GRAD(capture, "it has no result");
TG_NO_GRAD(return_, "it has no result");
TG_NO_GRAD(grad, "append-grad expands it before it differentiates what reads it");
TG_GRAD_NOT_IN_STAGE(fused, "stages fused and planned only");
TG_GRAD_NOT_IN_STAGE(yield, "stages fused and planned only");
TG_GRAD_NOT_IN_STAGE(home, "stages kernel and spirv only");
TG_GRAD_NOT_IN_STAGE(dispatch, "stages kernel and spirv only");
TG_GRAD_NOT_IN_STAGE(barrier, "stages kernel and spirv only");
TG_GRAD_NOT_IN_STAGE(collective_begin, "stages kernel and spirv only");
TG_GRAD_NOT_IN_STAGE(collective_wait, "stages kernel and spirv only");
TG_GRAD_NOT_IN_STAGE(fill, "stages planned, kernel and spirv only");
TG_GRAD_NOT_IN_STAGE(copy, "stages kernel and spirv only");

// A template, so that rows with a scalar need no entry of a family.
template <Opcode code, Scalar scalar>
static GradEntry entryOf() {
  if constexpr (scalar != Scalar::none)
    return {GradKind::byScalar, info(scalar).grads, byScalar};
  else
    return Entry<code>::kEntry;
}

}  // namespace grad_rules

static std::vector<GradEntry> makeTable() {
  using namespace grad_rules;
  return {
#define OP(id, name, slots, attrs, results, regions, traits, where, fusion, scalar, ...) \
  entryOf<Opcode::id, Scalar::scalar>(),
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
