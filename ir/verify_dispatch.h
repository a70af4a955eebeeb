// SPDX-License-Identifier: Apache-2.0
// The memory half of the kernel and spirv stages' verification.
#pragma once

#include "ir/module.h"
#include "ir/result.h"

namespace tg {

/// Checks every command of a kernel or spirv module: its kernel or binary exists, ranges lie in their
/// buffers and are as long as the parameters, no texel operand aliases an output, outputs are apart, and a
/// barrier stands between commands that touch the same bytes. A binary beside its kernel must carry that
/// kernel's hash.
Result<void> verifyDispatches(const Module& module);

/// What `kernel_hash` on a binary holds: xxh3 of the kernel's printed text, 16 hex digits.
std::string kernelHash(const Item& kernel);

}  // namespace tg
