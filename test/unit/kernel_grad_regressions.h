// SPDX-License-Identifier: Apache-2.0
// The smallest kernels on which a gradient was once wrong.
#pragma once

#include "test/unit/kernel_grad_catalogue.h"

namespace tg::test {

std::vector<NamedKernelGrad> kernelGradRegressions();

}  // namespace tg::test
