// SPDX-License-Identifier: Apache-2.0
// Random small kernels that are free of races, in range, and differentiable almost everywhere.
#pragma once

#include "test/unit/kernel_grad_check.h"

namespace tg::test {

/// The kernel of a seed with values for its parameters; the same seed gives the same kernel everywhere.
/// Its magnitudes stay moderate, every read element has been written, no two invocations touch an element
/// unordered, and barriers stand in uniform control flow: the verifier and the interpreter's counters agree.
KernelGradCase randomKernel(uint64_t seed);

/// The smallest kernel that delta debugging reaches from a case whose check finds a fault, with the same
/// fault: ops are dropped, their results replaced by literals or operands, loops shortened, while the
/// forward kernel stays free of faults. Returns the case itself when it has no fault, or
/// when its own kernel is at fault.
KernelGradCase reduceKernel(const KernelGradCase& test);

}  // namespace tg::test
