// SPDX-License-Identifier: Apache-2.0
#include "codegen/lower.h"

#include <fmt/format.h>

#include "ir/kernel/rewrites.h"
#include "ir/needs.h"

namespace tg {

Result<void> checkFeatures(const Item& kernel, const Target& target) {
  const Limits limits = limitsOf(target);
  Error errors;
  walk(kernel.body, [&](const Op& op) {
    KernelNeeds needs;
    addOp(needs, op);
    for (const Unmet& each : unmet(needs, limits)) {
      if (each.kind != Unmet::feature && each.kind != Unmet::product) continue;
      std::string of;
      for (const MatrixProduct& made : needs.products)
        of = fmt::format(" of [{}, {}, {}, {}, {}]", made.m, made.n, made.k, made.operand, made.result);
      errors.append(failAt(op.loc, "{} [kernel.feature]: needs `{}`{}, which target '{}' lacks",
                           op.info().name, each.name, of, target.name));
    }
  });
  if (!errors.empty()) return errors;
  return {};
}

/// A target without a bound has the largest number, since no loop counts further than 32 bits.
static bool limitsLoops(const Target& target) {
  return !gives(target, LimitId::loopIterations, Target().loopIterations);
}

void endLoops(Item& kernel, const Target& target) {
  if (limitsLoops(target)) clampLoops(kernel, target.subgroup);
}

Result<bool> fitLoops(Item& kernel, const Target& target) {
  if (!limitsLoops(target)) return true;
  return unroll(kernel, limitOf(target, LimitId::loopIterations));
}

}  // namespace tg
