// SPDX-License-Identifier: Apache-2.0
// Predicates on kernel ops, from ir/kernel/semantics.def.
#pragma once

#include "ir/kernel/element.h"
#include "ir/kernel/semantics.h"

namespace tg {

inline bool isLoad(const Op& op) { return semantics(op.code).effect == KernelEffect::reads; }

/// Stores, accumulations and atomics.
inline bool writesElement(const Op& op) { return semantics(op.code).effect == KernelEffect::writes; }

/// Whether an op is a barrier or reduction of the workgroup.
inline bool synchronizes(const Op& op) { return semantics(op.code).effect == KernelEffect::synchronizes; }

/// Whether an op exchanges values between the invocations of a subgroup.
inline bool isSubgroupOp(const Op& op) { return semantics(op.code).effect == KernelEffect::subgroupOp; }

/// Whether an op computes its result from its operands alone: it may be repeated, merged and moved.
inline bool isArithmetic(const Op& op) { return semantics(op.code).effect == KernelEffect::pure; }

/// The index of the operand that an op stores or combines with an element: 1 of a compare-exchange, else 0.
inline int broughtOperand(const Op& op) { return op.code == Opcode::k_atomic_compare_exchange ? 1 : 0; }

}  // namespace tg
