// SPDX-License-Identifier: Apache-2.0
// The verifier: structure by the op table, types by inference, stages, scopes, symbols.
#pragma once

#include "ir/module.h"
#include "ir/result.h"

namespace tg {

/// Checks a whole module for its stage; the error holds every finding in text order. From stage planned on this
/// includes verifyPlan.
Result<void> verify(const Module& module);

/// Checks the form of one op: its attributes and the classes of its operands. The op may lack results.
Result<void> verifyForm(const Op& op);

/// Proves that the memory of a planned (or later) module is correct: no two live values overlap unless one legally
/// replaces the other in place, every range is inside its buffer, groups are laid out in order, texel operands do not
/// alias an output of their dispatch. Does not share code with the planner.
Result<void> verifyPlan(const Module& module);

/// No device today runs a kernel beyond these limits; a target's own limits are checked where kernels are made.
constexpr int64_t kMaxInvocations = 1024;   ///< in a workgroup
constexpr int64_t kMaxSharedBytes = 65536;  ///< of shared memory in a workgroup
constexpr int64_t kMaxLocalBytes = 524288;  ///< of local buffers in an invocation, as on NVIDIA's GPUs

/// Checks one kernel: types, scopes, uniform barriers, constant indices in range, buffer modes.
Result<void> verifyKernel(const Item& kernel);

/// Checks that no element of an `out` buffer is certainly written twice. The kernel must pass verifyKernel. For a
/// large kernel this takes milliseconds, so that verify does it only before stage kernel, where users' kernels are;
/// generated kernels are covered by runs on the interpreter.
Result<void> verifyKernelWrites(const Item& kernel);

/// Checks a func of kernel scalars: its ops compute only from values, and it returns the types that it declares.
Result<void> verifyKernelFunc(const Item& func);

/// Checks that no func of kernel scalars calls itself, and that kernels with all calls inlined stay within a maximum
/// size. The items must pass verifyKernelSymbols.
Result<void> verifyKernelCalls(const Module& module);

/// Checks the symbols that a kernel or a func of kernel scalars uses: the funcs that it calls and its `vjp`.
Result<void> verifyKernelSymbols(const Item& item, const Module& module);

}  // namespace tg
