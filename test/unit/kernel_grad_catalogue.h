// SPDX-License-Identifier: Apache-2.0
// Small kernels whose gradients a careless differentiation gets wrong, with the right answers.
#pragma once

#include "test/unit/kernel_grad_check.h"

namespace tg::test {

struct NamedKernelGrad {
  std::string name;
  KernelGradCase test;
  bool smooth = true;  ///< has a second derivative at the case's values
};

/// The values that many of the kernels read.
inline const std::vector<double> kX{1.5, 2, -3, 0.5};

/// A vector of values, or an array of the given extents.
KernelArray given(std::vector<double> values);
KernelArray given(Shape shape, std::vector<double> values);
KernelArray room(Shape shape);
/// Distinct values in about -2..2, away from 0 and from halves; the same for the same seed.
KernelArray drawn(Shape shape, int seed, int lanes = 1);

/// Straight code, branches, loops and memory of one invocation.
std::vector<NamedKernelGrad> privateKernels();
/// With barriers: gathers, shared memory, several workgroups.
std::vector<NamedKernelGrad> barrierKernels();
/// Tiles in shared and local memory, filled and read by loops.
std::vector<NamedKernelGrad> tileKernels();
/// What the language has besides: functions, vectors, reductions, calls, user rules.
std::vector<NamedKernelGrad> languageKernels();
/// All of the above.
std::vector<NamedKernelGrad> kernelGradCatalogue();

}  // namespace tg::test
