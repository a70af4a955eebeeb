// SPDX-License-Identifier: Apache-2.0
#include "codegen/features.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/kernel/kernel.h"
#include "ir/kernel/unroll.h"

namespace tg {

Result<void> checkFeatures(const Item& kernel, const Target& target) {
  Error errors;
  walk(kernel.body, [&](Op& op) {
    if (op.info().name.starts_with("tgk.subgroup_") && !target.subgroups)
      errors.append(
          failAt(op.loc, fmt::format("{} [kernel.feature]: needs `subgroups`, which target '{}' lacks",
                                     op.info().name, target.name)));
  });
  walk(kernel.body, [&](Op& op) {
    if (op.code != Opcode::k_coopmat_mma) return;
    const Type &a = op.in(0)->type, &sum = op.result()->type;
    const CoopShape shape{a.shape[0], sum.shape[1], a.shape[1], a.dtype, sum.dtype};
    if (!target.subgroups ||
        std::find(target.coopmat.begin(), target.coopmat.end(), shape) == target.coopmat.end())
      errors.append(
          failAt(op.loc, fmt::format("{} [kernel.feature]: needs `coopmat` of [{}, {}, {}, {}, {}], which "
                                     "target '{}' lacks",
                                     op.info().name, shape.m, shape.n, shape.k, name(shape.operand),
                                     name(shape.result), target.name)));
  });
  if (!errors.empty()) return errors;
  return {};
}

Result<bool> fitLoops(Item& kernel, const Target& target) {
  if (target.loopIterations >= Target().loopIterations) return true;
  return unroll(kernel, target.loopIterations);
}

}  // namespace tg
