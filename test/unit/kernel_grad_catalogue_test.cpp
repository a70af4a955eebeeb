// The catalogue of kernel gradients on the interpreter: first derivatives against formulas and differences,
// second ones against differences, under every schedule.
#include <gtest/gtest.h>

#include "ir/parser.h"
#include "test/unit/kernel_grad_catalogue.h"

namespace tg::test {
namespace {

class KernelGradCatalogue : public ::testing::TestWithParam<NamedKernelGrad> {};

TEST_P(KernelGradCatalogue, First) {
  const NamedKernelGrad& named = GetParam();
  KernelGradCase test = named.test;
  if (!expectKernelGradient(test)) return;
  // Cotangents that are drawn: the formulas are for ones.
  test.expected.clear();
  test.cotangents.clear();
  for (uint64_t seed : {11, 12}) {
    test.seed = seed;
    if (!expectKernelGradient(test)) return;
  }
}

TEST_P(KernelGradCatalogue, Second) {
  const NamedKernelGrad& named = GetParam();
  if (!named.smooth) return;
  KernelGradCase second = secondDerivative(named.test);
  ASSERT_FALSE(second.text.empty()) << named.test.text;
  expectKernelGradient(second);
}

INSTANTIATE_TEST_SUITE_P(All, KernelGradCatalogue, ::testing::ValuesIn(kernelGradCatalogue()),
                         [](const auto& info) { return info.param.name; });

/// Case 38 of the list: leaving a kernel early is said with if.
TEST(KernelGradRefusals, EarlyReturnIsNotInTheLanguage) {
  auto module = parse(R"(module @m stage(kernel) {
  kernel @k(%x: buf<4xf32, in>, %o: buf<4xf32, out>) workgroup(4) grid(1) {
    %i = tgk.global_id 0 : u32
    %c = tgk.ge %i, 2 : bool
    tgk.if %c {
      tgk.return
    }
  }
}
)",
                      "early.tgir");
  ASSERT_FALSE(module);
  EXPECT_NE(module.error().str().find("early.tgir:6:7: error: "), std::string::npos) << module.error().str();
}

/// Old values of atomics may be handed out otherwise when the kernel runs again: the refusal says where.
TEST(KernelGradRefusals, OldValuesThatInvocationsShare) {
  KernelGradCase test;
  test.text =
      R"(kernel @k(%x: buf<8xf32, in>, %c: buf<1xu32, inout>, %o: buf<8xf32, accum>) workgroup(4) grid(2) {
    %i = tgk.global_id 0 : u32
    %old = tgk.atomic_add 1, %c[0] : u32
    %v = tgk.load %x[%i] : f32
    %s = tgk.sin %v : f32
    tgk.atomic_add %s, %o[%old]
  })";
  auto module = parse("module @m stage(kernel) {\n" + test.text + "\n}\n", "kernel.tgir");
  ASSERT_TRUE(module) << module.error().str();
  auto made = differentiateKernel(**module, *(*module)->find(ItemKind::kernel, "k"), {{}, {}, "k.vjp", 0});
  ASSERT_FALSE(made) << print(*made->kernel);
  std::string why = made.error().str();
  EXPECT_NE(why.find("kernel.tgir:4:5: error: tgk.atomic_add [kernel-vjp."), std::string::npos) << why;
  EXPECT_NE(why.find("fix: "), std::string::npos) << why;
}

/// The judge itself: each kind of fault is seen.
KernelGradCase faulty(const std::string& rule) {
  KernelGradCase test;
  test.text = R"(kernel @k(%x: buf<2xf32, in>, %o: buf<2xf32, out>) workgroup(2) grid(1) {
    %i = tgk.global_id 0 : u32
    %v = tgk.load %x[%i] : f32
    %y = tgk.mul %v, %v : f32
    tgk.store %y, %o[%i]
  }
  kernel @k_vjp(%x: buf<2xf32, in>, %d_o: buf<2xf32, in>, %d_x: buf<2xf32, out>) workgroup(2) grid(1) {
    %i = tgk.global_id 0 : u32
    %g = tgk.load %d_o[%i] : f32
    %v = tgk.load %x[%i] : f32
)" + rule + "\n}";
  test.arrays = {{"x", given({1.5, -2})}, {"o", room({2})}};
  test.vjp = "k_vjp";
  return test;
}

TEST(KernelGradJudge, SeesEachFault) {
  auto fault = [](const std::string& rule) { return checkKernelGradient(faulty(rule)).fault; };
  const std::string right = "%p = tgk.mul %g, %v : f32\n%d = tgk.add %p, %p : f32\n";
  EXPECT_EQ(fault(right + "tgk.store %d, %d_x[%i]"), GradFault::none);
  EXPECT_EQ(fault(right + "tgk.store %p, %d_x[%i]"), GradFault::values);
  EXPECT_EQ(fault(right + "%b = tgk.gt %g, 100.0 : bool\n%j = tgk.cast %b : u32\n"
                          "tgk.store %d, %d_x[%j]"),
            GradFault::faults);
  EXPECT_EQ(fault(right), GradFault::values);  // never written: NaN
  EXPECT_EQ(fault(right + "%j = tgk.add %i, 1 : u32\ntgk.store %d, %d_x[%j]"), GradFault::faults);
  EXPECT_EQ(fault(right + "%e = tgk.add %d, 16777216.0 : f32\n%f = tgk.sub %e, 16777216.0 : f32\n"
                          "tgk.store %f, %d_x[%i]"),
            GradFault::f32);
}

}  // namespace
}  // namespace tg::test
