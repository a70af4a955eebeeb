// SPDX-License-Identifier: Apache-2.0
// Verifies the memory accesses of modules of the stages kernel and spirv.
#pragma once

#include "ir/module.h"
#include "ir/result.h"

namespace tg {

/// Checks every command of a kernel or spirv module: its kernel or binary exists, its ranges lie in their buffers and
/// are as long as the parameters, texel operands do not alias outputs, outputs do not overlap, and a barrier
/// separates commands of which one writes bytes that the other accesses. A binary with a kernel of the same name must
/// carry that kernel's hash.
Result<void> verifyDispatches(const Module& module);

/// The value of `kernel_hash` on a binary: xxh3 of the kernel's printed text, 16 hex digits.
std::string kernelHash(const Item& kernel);

}  // namespace tg
