// SPDX-License-Identifier: Apache-2.0
// The verifier: structure from the op table, types from inference, stages, scopes, symbols.
#pragma once

#include "ir/module.h"
#include "ir/result.h"

namespace tg {

/// Checks a whole module against its stage; the error holds every finding, in text order.
/// From stage planned on this includes verifyPlan.
Result<void> verify(const Module& module);

/// Checks the form of one op, which need not have results yet: its attributes and its operands' classes.
Result<void> verifyForm(const Op& op);

/// Proves a planned (or later) module's memory: no two live values overlap unless one is a legal
/// in-place successor, every range lies in its buffer, groups are laid out in order, texel
/// operands alias no output of their dispatch. Independent of the planner.
Result<void> verifyPlan(const Module& module);

/// Beyond these no device of today runs a kernel; a target's own limits are checked where kernels are made.
constexpr int64_t kMaxInvocations = 1024;   ///< of a workgroup
constexpr int64_t kMaxSharedBytes = 65536;  ///< of its shared memory
constexpr int64_t kMaxLocalBytes = 524288;  ///< of an invocation's local buffers, as on NVIDIA's GPUs

/// Checks one kernel: types, scopes, uniform barriers, constant indices in range, buffer modes.
Result<void> verifyKernel(const Item& kernel);

/// Checks that no element of an `out` buffer is certainly written twice. The kernel passes verifyKernel. This
/// takes milliseconds for a large kernel, so that verify does it where users' kernels stand, before stage
/// kernel; generated kernels are covered by runs on the interpreter.
Result<void> verifyKernelWrites(const Item& kernel);

/// Checks a func of kernel scalars: its ops compute from values alone, and it returns what it says.
Result<void> verifyKernelFunc(const Item& func);

/// Checks that no func of kernel scalars calls itself, and that what kernels become when all calls are
/// inlined is of a size that can be worked on. The items pass verifyKernelSymbols.
Result<void> verifyKernelCalls(const Module& module);

/// Checks what a kernel or a func of kernel scalars names in its module: the funcs it calls and its `vjp`.
Result<void> verifyKernelSymbols(const Item& item, const Module& module);

}  // namespace tg
