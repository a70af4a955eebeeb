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
constexpr int64_t kMaxAlongZ = 64;          ///< along z; shaderc accepts no more
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

/// Checks every command of a kernel or spirv module: its kernel or binary exists, its ranges lie in their buffers and
/// are as long as the parameters, texel operands do not alias outputs, outputs do not overlap, and a barrier
/// separates commands of which one writes bytes that the other accesses. A binary with a kernel of the same name must
/// carry that kernel's hash.
Result<void> verifyDispatches(const Module& module);

/// The value of `kernel_hash` on a binary: xxh3 of the kernel's printed text, 16 hex digits.
std::string kernelHash(const Item& kernel);
/// The value of `modes` on a binary: how the kernel accesses each parameter, `[in, texel(f32x4), out]`. A runtime without
/// the kernel's text binds its buffers by them.
Attr kernelModes(const Item& kernel);

/// Regions, operands, attributes and locations are nested at most this deep, so that recursion over them is bounded.
constexpr int kMaxNesting = 64;
/// Offsets and sizes in bytes are below this limit, so that sums and products of numbers in a text fit 64 bits.
constexpr int64_t kMaxBytes = int64_t{1} << 50;

/// Whether the name can be written after '%' or '@'.
bool isSymbolName(std::string_view name);

/// Checks the operands of one op by themselves: no null values, and they fill the slots of its row.
Result<void> verifyOperands(const Op& op);

/// Checks the assumptions of all code that reads a func or kernel: no null pointers, operands that fill the op's
/// slots, values that are defined before they are used and have unique names, results that point to their op, region
/// arguments that the op binds, types that have a size. Follows no pointer before it is known to be valid. The error
/// holds only the first finding, because others may follow from it.
Result<void> verifyStructure(const Item& item, const Module& module);

/// Checks that no tensor has more than kMaxElements elements. A pass may compute sizes from a valid module's that
/// exceed the limit, which is no error of the pass.
Result<void> verifySizes(const Module& module);

/// Checks that the names of a module and its items can be written, and that no two items of a kind share a name;
/// params and states count as one kind.
Result<void> verifyNames(const Module& module);

}  // namespace tg
