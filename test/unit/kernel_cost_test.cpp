// SPDX-License-Identifier: Apache-2.0
#include "ir/kernel/cost.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "ir/parser.h"
#include "ir/verify.h"

namespace tg {
namespace {

/// The cost of the one kernel of a module.
KernelCost costOf(const std::string& kernel, std::array<int64_t, 3> grid) {
  auto module = parse("module @m {\n" + kernel + "}\n", "cost.tgir");
  EXPECT_TRUE(module) << (module ? "" : module.error().str());
  if (!module) return {};
  auto good = verify(**module);
  EXPECT_TRUE(good) << (good ? "" : good.error().str());
  return kernelCost(**module, *(*module)->all(ItemKind::kernel).front(), grid);
}

std::string guarded(int64_t elements, int64_t groups) {
  return fmt::format(R"(
  kernel @k(%x: buf<{0}xf32, in>, %y: buf<{0}xf32, out>) workgroup(64, 1, 1) grid({1}) {{
    %i = tgk.global_id 0 : u32
    %inside = tgk.lt %i, {0} : bool
    tgk.if %inside {{
      %a = tgk.load %x[%i] : f32
      %b = tgk.fma %a, %a, 1.0 : f32
      %c = tgk.tanh %b : f32
      tgk.store %c, %y[%i]
      tgk.yield
    }}
  }}
)",
                     elements, groups);
}

TEST(KernelCost, AGuardCountsOnlyTheElements) {
  for (int64_t elements : {1, 64, 1000, 100'003}) {
    int64_t groups = (elements + 63) / 64;
    KernelCost cost = costOf(guarded(elements, groups), {groups, 1, 1});
    EXPECT_TRUE(cost.decided);
    EXPECT_DOUBLE_EQ(cost.flops, 3.0 * static_cast<double>(elements)) << elements;
    EXPECT_DOUBLE_EQ(cost.params[0].loaded, 4.0 * static_cast<double>(elements)) << elements;
    EXPECT_DOUBLE_EQ(cost.params[0].stored, 0) << elements;
    EXPECT_DOUBLE_EQ(cost.params[1].stored, 4.0 * static_cast<double>(elements)) << elements;
  }
}

// 16x8 times 8x24, an element per invocation, relu behind it: 2·M·N·K + M·N.
TEST(KernelCost, AMatmulIsTwoMNKAndItsEpilogue) {
  KernelCost cost = costOf(R"(
  kernel @k(%a: buf<128xf32, in>, %b: buf<192xf32, in>, %c: buf<384xf32, out>) workgroup(8, 8, 1) grid(3, 2, 1) {
    %n = tgk.global_id 0 : u32
    %m = tgk.global_id 1 : u32
    %row = tgk.mul %m, 8 : u32
    %sum = tgk.for %k = 0 to(8) iter_args(%acc = 0.0) : f32 {
      %i = tgk.add %row, %k : u32
      %x = tgk.load %a[%i] : f32
      %down = tgk.mul %k, 24 : u32
      %j = tgk.add %down, %n : u32
      %y = tgk.load %b[%j] : f32
      %next = tgk.fma %x, %y, %acc : f32
      tgk.yield %next : f32
    }
    %relu = tgk.max %sum, 0.0 : f32
    %out = tgk.mul %m, 24 : u32
    %at = tgk.add %out, %n : u32
    tgk.store %relu, %c[%at]
  }
)",
                           {3, 2, 1});
  EXPECT_DOUBLE_EQ(cost.flops, 2.0 * 16 * 24 * 8 + 16 * 24);
  EXPECT_DOUBLE_EQ(cost.params[0].loaded, 4.0 * 16 * 24 * 8);
  EXPECT_DOUBLE_EQ(cost.params[1].loaded, 4.0 * 16 * 24 * 8);
  EXPECT_DOUBLE_EQ(cost.params[2].stored, 4.0 * 16 * 24);
}

// Row i sums the elements up to i, as causal attention does: n(n+1)/2 in all, also when most rows are only
// inferred from those followed.
TEST(KernelCost, ATriangleOfTripsIsSummedExactly) {
  for (int64_t rows : {5, 48, 400}) {
    KernelCost cost = costOf(fmt::format(R"(
  kernel @k(%x: buf<{0}x{0}xf32, in>, %y: buf<{0}xf32, out>) workgroup(1, 1, 1) grid({0}) {{
    %i = tgk.workgroup_id 0 : u32
    %end = tgk.add %i, 1 : u32
    %sum = tgk.for %k = 0 to(%end) iter_args(%acc = 0.0) : f32 {{
      %v = tgk.load %x[%i, %k] : f32
      %next = tgk.add %acc, %v : f32
      tgk.yield %next : f32
    }}
    tgk.store %sum, %y[%i]
  }}
)",
                                         rows),
                             {rows, 1, 1});
    double n = static_cast<double>(rows);
    EXPECT_NEAR(cost.flops, n * (n + 1) / 2, rows > 48 ? n * n * 0.01 : 0) << rows;
  }
}

TEST(KernelCost, VectorsCountTheirLanesAndReductionsOneLess) {
  KernelCost cost = costOf(R"(
  kernel @k(%x: buf<32xvec4<f32>, in>, %y: buf<1xf32, out>) workgroup(32, 1, 1) grid(1) {
    %i = tgk.local_id 0 : u32
    %first = tgk.eq %i, 0 : bool
    %v = tgk.load %x[%i] : vec4<f32>
    %s = tgk.mul %v, %v : vec4<f32>
    %a = tgk.extract %s, 0 : f32
    %r = tgk.workgroup_reduce %a : f32
    tgk.if %first {
      tgk.store %r, %y[0]
      tgk.yield
    }
  }
)",
                           {1, 1, 1});
  EXPECT_DOUBLE_EQ(cost.flops, 32 * 4 + 31);
  EXPECT_DOUBLE_EQ(cost.params[0].loaded, 32 * 16);
  EXPECT_DOUBLE_EQ(cost.params[1].stored, 4);
}

// Data decides: one trip, and the count says that it is none.
TEST(KernelCost, LoopsOverLoadedCountsAreUndecided) {
  KernelCost cost = costOf(R"(
  kernel @k(%n: buf<4xu32, in>, %y: buf<4xf32, out>) workgroup(4, 1, 1) grid(1) {
    %i = tgk.local_id 0 : u32
    %count = tgk.load %n[%i] : u32
    %sum = tgk.for %k = 0 to(%count) iter_args(%acc = 0.0) : f32 {
      %next = tgk.add %acc, 1.0 : f32
      tgk.yield %next : f32
    }
    tgk.store %sum, %y[%i]
  }
)",
                           {1, 1, 1});
  EXPECT_FALSE(cost.decided);
  EXPECT_DOUBLE_EQ(cost.flops, 4);
}

}  // namespace
}  // namespace tg
