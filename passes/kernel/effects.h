// SPDX-License-Identifier: Apache-2.0
// What an op of a kernel does to memory, read off its form: the passes over kernels share it.
#pragma once

#include "ir/kernel/element.h"
#include "ir/module.h"

namespace tg {

inline bool isLoad(const Op& op) { return op.code == Opcode::k_load || op.code == Opcode::k_exact_load; }

/// Stores, accumulations and atomics.
inline bool writesElement(const Op& op) { return elementOf(op) && !isLoad(op); }

/// Whether all invocations of a workgroup come together at an op.
inline bool meets(const Op& op) {
  return op.code == Opcode::k_barrier || op.code == Opcode::k_workgroup_reduce;
}

/// Whether an op talks to the other invocations of its subgroup.
inline bool talksToSubgroup(const Op& op) {
  return op.code == Opcode::k_subgroup_reduce || op.code == Opcode::k_subgroup_shuffle ||
         op.code == Opcode::k_subgroup_ballot;
}

/// Whether an op computes its result from its operands alone: it may be repeated, merged and moved. A call
/// runs a body that is not known here.
inline bool isArithmetic(const Op& op) {
  return op.info().has(table::pure) && op.regions.empty() && !elementOf(op) && op.code != Opcode::k_call;
}

/// The place of the value that an op brings to an element: 1 of a compare-exchange, else 0.
inline int broughtOperand(const Op& op) { return op.code == Opcode::k_atomic_compare_exchange ? 1 : 0; }

}  // namespace tg
