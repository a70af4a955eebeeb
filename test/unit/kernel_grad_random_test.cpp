// SPDX-License-Identifier: Apache-2.0
// Random kernels: their VJPs against central differences. TG_KERNEL_SEEDS=n runs n seeds (the nightly count
// is in test/CMakeLists.txt), TG_KERNEL_FIRST=s begins with another one; a failure prints the reduced kernel.
#include <gtest/gtest.h>

#include <cstdlib>

#include "test/unit/kernel_grad_regressions.h"
#include "test/unit/random_kernels.h"

namespace tg::test {
namespace {

uint64_t setting(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

/// The first derivatives of a seed, and of some the second.
KernelGradReport check(const KernelGradCase& test) {
  KernelGradReport report = checkKernelGradient(test);
  if (report.fault != GradFault::none || test.seed % 16 != 0) return report;
  KernelGradCase second = secondDerivative(test);
  std::erase(second.wrt, "z");  // it is only read behind stop_gradient, which differences do not see
  second.tolerance = 1e-6;
  KernelGradReport deeper = checkKernelGradient(second);
  report.fault = deeper.fault;
  report.what = "second derivative: " + deeper.what + "\n" + second.text;
  report.vjp = deeper.vjp;
  return report;
}

/// What of all seeds must have been tested for the run to mean something.
struct Tally {
  int compared = 0, kinks = 0, kernels = 0;
};

void run(uint64_t first, uint64_t count, Tally* tally) {
  int failures = 0;
  for (uint64_t seed = first; seed < first + count && failures < 5; ++seed) {
    KernelGradCase test = randomKernel(seed);
    KernelGradReport report = check(test);
    ++tally->kernels;
    tally->compared += report.compared;
    tally->kinks += report.kinks;
    if (report.fault == GradFault::none) continue;
    ++failures;
    KernelGradCase small = reduceKernel(test);
    KernelGradReport why = checkKernelGradient(small);
    if (why.fault == GradFault::none) why = std::move(report);  // of the second derivative, not reduced
    ADD_FAILURE() << "seed " << seed << ", " << name(why.fault) << ": " << why.what << "\n"
                  << small.text << "\n"
                  << why.vjp;
  }
}

/// A seed costs thirty times as much in an unoptimized build with sanitizers.
#ifdef __SANITIZE_ADDRESS__
constexpr uint64_t kSeeds = 30;
#else
constexpr uint64_t kSeeds = 300;
#endif

TEST(RandomKernels, GradientsAreThoseOfDifferences) {
  Tally tally;
  run(setting("TG_KERNEL_FIRST", 1), setting("TG_KERNEL_SEEDS", kSeeds), &tally);
  if (tally.kernels < 100) return;
  EXPECT_GT(tally.compared, 5 * tally.kernels);
  EXPECT_LT(tally.kinks, tally.compared / 20);
}

class KernelGradRegressions : public ::testing::TestWithParam<NamedKernelGrad> {};

TEST_P(KernelGradRegressions, Stays) { expectKernelGradient(GetParam().test); }

INSTANTIATE_TEST_SUITE_P(All, KernelGradRegressions, ::testing::ValuesIn(kernelGradRegressions()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tg::test
