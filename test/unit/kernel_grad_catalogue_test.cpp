// SPDX-License-Identifier: Apache-2.0
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

/// Of what a loop loads from a tile that it fills itself nothing is kept, and all of what may be older.
TEST(KernelGradTiles, KeepOnlyWhatCannotBeFilledAgain) {
  int filled = 0, kept = 0;
  for (const NamedKernelGrad& named : tileKernels()) {
    bool none = named.name.starts_with("TileFilled") || named.name.starts_with("TiledProduct");
    bool some = named.name.starts_with("TileKept");
    if (!none && !some) continue;
    std::string vjp = checkKernelGradient(named.test).vjp;
    EXPECT_EQ(vjp.find(", tape>") == std::string::npos, none) << named.name << "\n" << vjp;
    (none ? filled : kept)++;
  }
  EXPECT_GE(filled, 12);
  EXPECT_GE(kept, 3);
}

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

KernelGradCase oldValueAsIndex(const std::string& add) {
  KernelGradCase test;
  test.text =
      R"(kernel @k(%x: buf<8xf32, in>, %c: buf<4xu32, inout>, %o: buf<4xf32, out>) workgroup(4) grid(1) {
    %i = tgk.global_id 0 : u32
)" + add +
      R"(
    %v = tgk.load %x[%old] : f32
    %s = tgk.sin %v : f32
    tgk.store %s, %o[%i]
  })";
  test.arrays = {{"x", drawn({8}, 16)}, {"c", given({0, 1, 3, 5})}, {"o", room({4})}};
  return test;
}

/// Another run of the kernel hands the same old values out where each counter has one user.
TEST(KernelGradRefusals, OldValueOfACounterOfOnesOwn) {
  expectKernelGradient(oldValueAsIndex("    %old = tgk.atomic_add 2, %c[%i] : u32"));
}

/// The counter starts at zero in the gradient, too.
TEST(KernelGradRefusals, OldValueOfACounterThatStartsAtZero) {
  KernelGradCase test;
  test.text =
      R"(kernel @k(%x: buf<6xf32, in>, %c: buf<1xu32, accum>, %o: buf<6xf32, out>) workgroup(1) grid(1) {
    tgk.for %i = 0 to(6) {
      %old = tgk.atomic_add 1, %c[0] : u32
      %at = tgk.sub 5, %old : u32
      %v = tgk.load %x[%at] : f32
      %s = tgk.sin %v : f32
      tgk.store %s, %o[%old]
    }
  })";
  test.arrays = {{"x", drawn({6}, 16)}, {"c", room({1})}, {"o", room({6})}};
  expectKernelGradient(test);
}

/// Additions without a result count, too.
TEST(KernelGradRefusals, OldValueAfterAPlainAddition) {
  KernelGradCase test;
  test.text =
      R"(kernel @k(%x: buf<6xf32, in>, %c: buf<3xu32, accum>, %o: buf<3xf32, out>) workgroup(3) grid(1) {
    %i = tgk.global_id 0 : u32
    tgk.atomic_add 2, %c[%i]
    %old = tgk.atomic_add 1, %c[%i] : u32
    %at = tgk.add %old, %i : u32
    %v = tgk.load %x[%at] : f32
    %s = tgk.sin %v : f32
    tgk.store %s, %o[%i]
  })";
  test.arrays = {{"x", drawn({6}, 16)}, {"c", room({3})}, {"o", room({3})}};
  expectKernelGradient(test);
}

/// Those of a shared counter may be handed out otherwise: the refusal says where.
TEST(KernelGradRefusals, OldValueOfACounterOfAll) {
  KernelGradReport report = checkKernelGradient(oldValueAsIndex("    %old = tgk.atomic_add 0, %c[1] : u32"));
  EXPECT_EQ(report.fault, GradFault::refused);
  EXPECT_NE(report.what.find("kernel.tgir:4:5: error: tgk.atomic_add [kernel-vjp.g4]"), std::string::npos)
      << report.what;
  EXPECT_NE(report.what.find("fix: "), std::string::npos) << report.what;
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
  // Written twice, which the verifier cannot see.
  EXPECT_EQ(fault(right + "%b = tgk.isnan %v : bool\n%z = tgk.cast %b : u32\ntgk.store %d, %d_x[%z]"),
            GradFault::faults);
  EXPECT_EQ(fault(right), GradFault::values);  // never written: NaN
  EXPECT_EQ(fault(right + "%j = tgk.add %i, 1 : u32\ntgk.store %d, %d_x[%j]"), GradFault::faults);
  EXPECT_EQ(fault(right + "%e = tgk.add %d, 16777216.0 : f32\n%f = tgk.sub %e, 16777216.0 : f32\n"
                          "tgk.store %f, %d_x[%i]"),
            GradFault::f32);
}

}  // namespace
}  // namespace tg::test
