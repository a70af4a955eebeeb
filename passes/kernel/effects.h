// SPDX-License-Identifier: Apache-2.0
// What an op of a kernel does to memory, read off its row: the passes over kernels share it.
#pragma once

#include "ir/kernel/element.h"
#include "ir/kernel/semantics.h"

namespace tg {

inline bool isLoad(const Op& op) { return semantics(op.code).effect == KernelEffect::reads; }

/// Stores, accumulations and atomics.
inline bool writesElement(const Op& op) { return semantics(op.code).effect == KernelEffect::writes; }

/// Whether all invocations of a workgroup come together at an op.
inline bool meets(const Op& op) { return semantics(op.code).effect == KernelEffect::meets; }

/// Whether an op talks to the other invocations of its subgroup.
inline bool talksToSubgroup(const Op& op) { return semantics(op.code).effect == KernelEffect::talks; }

/// Whether an op computes its result from its operands alone: it may be repeated, merged and moved.
inline bool isArithmetic(const Op& op) { return semantics(op.code).effect == KernelEffect::pure; }

/// The place of the value that an op brings to an element: 1 of a compare-exchange, else 0.
inline int broughtOperand(const Op& op) { return op.code == Opcode::k_atomic_compare_exchange ? 1 : 0; }

}  // namespace tg
