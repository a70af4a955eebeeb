// SPDX-License-Identifier: Apache-2.0
#include "passes/kernel/refusal.h"

#include <fmt/format.h>

#include <unordered_map>

#include "ir/kernel/index_analysis.h"
#include "passes/kernel/effects.h"
#include "passes/kernel/vjp.h"

namespace tg {

const std::vector<KernelVjpRefusal>& kernelVjpRefusals() {
  static const std::vector<KernelVjpRefusal> kRows{
      {"g1", "its old value lies on an active path and depends on the order of the invocations",
       "read the element by a tgk.load behind a barrier, or pass the old value through tgk.stop_gradient"},
      {"g2", "which invocation's value stays in the element depends on their order",
       "use tgk.store where one invocation writes the element, or pass the value through tgk.stop_gradient"},
      {"g3", "exact sums are what gradients are lowered to; they have no derivative themselves",
       "differentiate the kernel before fuse makes its sums exact, or write it with tgk.atomic_add"},
      {"g4",
       "the gradient needs its old value, and a second run of the kernel may hand the old values out "
       "otherwise",
       "let a kernel of its own write the old values to a buffer that this one reads"},
      {"g5", "a value to keep has more than 8 axes: loops around it, launch axes and lanes",
       "write the inner loops as one, or launch on one axis"},
      {"g6", "nothing bounds its trips, so that what each must keep has no size",
       "bound the limit: `%n = tgk.min %limit, 64`"},
      {"g7", "matrices that a subgroup holds have no derivative",
       "write the gradient's kernel and name it, `vjp(@mine)`; the compiler makes its own of tg.matmul"},
      {"g8", "its tiles and their gradients need more than 65536 bytes of shared memory",
       "use smaller tiles, or write the gradient's kernel and name it, `vjp(@mine)`"},
      {"g9", "its local buffers and their gradients need more than 524288 bytes for each invocation",
       "keep fewer elements, or write the gradient's kernel and name it, `vjp(@mine)`"},
  };
  return kRows;
}

static Error refused(const Loc& loc, std::string_view op, Refusal which) {
  const KernelVjpRefusal& row = kernelVjpRefusals()[static_cast<size_t>(which)];
  return failAt(loc, fmt::format("{} [kernel-vjp.{}]: {}", op, row.label, row.why))
      .note(loc, fmt::format("fix: {}", row.fix));
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
