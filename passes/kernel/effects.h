// SPDX-License-Identifier: Apache-2.0
// What kernel ops write, and how values flow through control flow and memory.
#pragma once

#include <unordered_set>

#include "ir/kernel/element.h"
#include "ir/kernel/kernel.h"
#include "ir/kernel/semantics.h"

namespace tg {

/// The buffers to which a kernel writes.
inline std::unordered_set<const Value*> writtenBuffers(const Item& kernel) {
  std::unordered_set<const Value*> written;
  walk(kernel.body, [&](const Op& op) {
    if (writesElement(op)) written.insert(elementOf(op)->value);
  });
  return written;
}

/// The index of the operand that an op stores to, or combines with, an element: 1 for a compare-exchange, otherwise 0.
inline int broughtOperand(const Op& op) { return op.code == Opcode::k_atomic_compare_exchange ? 1 : 0; }

/// Calls `flow(from, to)`, with an operand and a value, for each flow of values through an if (from what its bodies yield),
/// a loop (from initial and carried values), or an access (into or out of a buffer, which counts as one value). Returns
/// false for all other ops, without calls.
template <class Flow>
bool eachFlow(const Op& op, Flow flow) {
  if (op.code == Opcode::k_if) {
    for (const auto& region : op.regions)
      if (const Op* yield = yieldOf(*region))
        for (size_t i = 0; i < op.results.size(); ++i) flow(yield->operands[i], op.results[i].get());
  } else if (op.code == Opcode::k_for) {
    const auto& carried = iterArgs(op);
    const Op* yield = yieldOf(*op.regions[0]);
    for (size_t i = 0; i < carried.size(); ++i)
      for (const Operand* from : {&carried[i].items[0], &yield->operands[i]}) {
        flow(*from, carried[i].value);
        if (!op.results.empty()) flow(*from, op.results[i].get());
      }
  } else if (const Operand* element = elementOf(op)) {
    if (writesElement(op)) flow(op.operands[static_cast<size_t>(broughtOperand(op))], element->value);
    for (const auto& result : op.results) flow(*element, result.get());
  } else {
    return false;
  }
  return true;
}

}  // namespace tg
