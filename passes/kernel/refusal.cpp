// SPDX-License-Identifier: Apache-2.0
#include "passes/kernel/vjp_steps.h"

#include <fmt/format.h>

#include <unordered_map>

#include "ir/kernel/index_analysis.h"
#include "passes/kernel/effects.h"
#include "passes/kernel/vjp.h"

namespace tg {

const std::vector<KernelVjpRefusal>& kernelVjpRefusals() {
  static const std::vector<KernelVjpRefusal> kRows{
      {"g1", "a gradient would pass through its old value, which depends on the order of the invocations",
       "read the element by a tgk.load after a barrier, or pass the old value through tgk.stop_gradient"},
      {"g2", "the value that remains in the element depends on the order of the invocations",
       "use tgk.store where one invocation writes the element, or pass the value through tgk.stop_gradient"},
      {"g3", "exact sums have no derivative; gradients are lowered to them",
       "differentiate the kernel before fuse makes its sums exact, or write it with tgk.atomic_add"},
      {"g4", "the gradient needs its old value, which may differ when the kernel runs again",
       "write the old values to a buffer in another kernel, and read that here"},
      {"g5", "a value to keep for the gradient has more than 8 axes: loops around it, launch axes and lanes",
       "merge the inner loops into one, or launch on one axis"},
      {"g6", "its iterations are not bounded, so the values to keep for the gradient have no size",
       "bound the limit: `%n = tgk.min %limit, 64`"},
      {"g7", "matrices of a subgroup have no derivative",
       "write the gradient as a kernel and name it by `vjp(@mine)`, or use tg.matmul"},
      {"g8", "its tiles and their gradients need more than 65536 bytes of shared memory",
       "use smaller tiles, or write the gradient as a kernel and name it by `vjp(@mine)`"},
      {"g9", "its local buffers and their gradients need more than 524288 bytes for each invocation",
       "use smaller buffers, or write the gradient as a kernel and name it by `vjp(@mine)`"},
  };
  return kRows;
}

static Error refused(const Loc& loc, std::string_view op, Refusal which) {
  const KernelVjpRefusal& row = kernelVjpRefusals()[static_cast<size_t>(which)];
  return failAt(loc, "{} [kernel-vjp.{}]: {}", op, row.label, row.why).note(loc, "fix: {}", row.fix);
}

/// An op of the VJP is reported as the kernel's op that it derives from.
Error refusal(const Op& op, Refusal which) {
  Loc loc = op.loc;
  while (loc && loc->how == "vjp") loc = loc->origin;
  return refused(loc, op.info().name, which);
}

Error refusal(const Item& kernel, Refusal which) {
  return refused(kernel.loc, fmt::format("kernel @{}", kernel.name), which);
}

Result<void> checkDifferentiable(const KernelFacts& facts, const Activity& activity) {
  Error errors;
  walk(facts.kernel().body, [&](Op& op) {
    if (isCoopmatOp(op.code)) return errors.append(refusal(op, Refusal::matrix));
    const Operand* element = elementOf(op);
    if (!element || !activity.active(element->value)) return;
    if (!op.results.empty() && writesElement(op) && activity.active(op.result()))
      errors.append(refusal(op, Refusal::oldValue));
    else if (op.code == Opcode::k_atomic_exchange || op.code == Opcode::k_atomic_compare_exchange)
      errors.append(refusal(op, Refusal::exchange));
    else if (op.code == Opcode::k_exact_add || op.code == Opcode::k_exact_store ||
             op.code == Opcode::k_exact_load)
      errors.append(refusal(op, Refusal::exact));
  });
  if (!errors.empty()) return errors;
  return {};
}

Result<void> checkRepeatable(const Item& vjp) {
  std::unordered_map<const Value*, std::vector<const Op*>> accesses;
  walk(vjp.body, [&](Op& op) {
    if (const Operand* element = elementOf(op)) accesses[element->value].push_back(&op);
  });
  IndexAnalysis analysis(vjp);
  Error errors;
  walk(vjp.body, [&](Op& op) {
    if (!writesElement(op) || op.results.empty()) return;
    const Value* buffer = elementOf(op)->value;
    bool alone = buffer->type.mode == BufMode::local || analysis.lanePrivate(accesses[buffer]);
    if (!alone) errors.append(refusal(op, Refusal::order));
  });
  if (!errors.empty()) return errors;
  return {};
}

}  // namespace tg
