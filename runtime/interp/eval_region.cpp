// SPDX-License-Identifier: Apache-2.0
// Evaluates the body of a tg.fused. It is isolated from above: it uses no values except its bindings.

#include "runtime/interp/interp_state.h"

namespace tg {

std::vector<int> slotSizes(const Op& fused) {
  if (fused.groups.empty()) return std::vector<int>(fused.results.size(), 1);
  std::vector<int> sizes;
  for (int members : fused.groups) sizes.push_back(members == 0 ? 1 : members);
  return sizes;
}

Result<std::vector<NdArray>> evalRegion(const Op& fused, std::span<const NdArray* const> bindings,
                                        EvalContext& context) {
  Environment environment;
  for (size_t i = 0; i < bindings.size(); ++i) environment.borrow(fused.operands[i].value, bindings[i]);
  std::vector<NdArray> yielded;
  for (Op* op : fused.regions[0]->ops) {
    if (op->code != Opcode::yield) {
      TG_CHECK(evalInto(*op, environment, context));
      continue;
    }
    for (const Operand& operand : op->operands) yielded.push_back(environment.at(operand.value));
  }
  return yielded;
}

}  // namespace tg
