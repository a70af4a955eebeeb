// Each entry is what the reducer left of a random kernel, under the name of what was wrong.
#include "test/unit/kernel_grad_regressions.h"

namespace tg::test {

std::vector<NamedKernelGrad> kernelGradRegressions() { return {}; }

}  // namespace tg::test
