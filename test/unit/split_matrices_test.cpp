// SPDX-License-Identifier: Apache-2.0
// Matrices of 16x16 as matrices of the shapes that devices have: the kernel computes what it did.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "codegen/lower.h"
#include "ir/needs.h"
#include "test/unit/kernel_text.h"

namespace tg::test {
namespace {

/// Every op on matrices: a product in a loop that carries its sum, in a branch, and the elements in between.
constexpr const char* kEveryOp = R"(
  kernel @k(%x: buf<16x6xvec4<f16>, in>, %bias: buf<32xf32, in>, %z: buf<24x20xf32, out>,
            %w: buf<16x8xu32, out>) workgroup(32) grid(1) {
    %a = tgk.shared : buf<16x6xvec4<f16>, shared>
    %l = tgk.local_id 0 : u32
    %g = tgk.workgroup_id 0 : u32
    tgk.for %e = %l to(96) step(32) {
      %r = tgk.div %e, 6 : u32
      %q = tgk.mod %e, 6 : u32
      %v = tgk.load %x[%r, %q] : vec4<f32>
      tgk.store %v, %a[%r, %q]
    }
    tgk.barrier
    %start = tgk.coopmat_splat 0.5 : coopmat<f32, 16x16, acc>
    %ma = tgk.coopmat_load %a[0, %g] : coopmat<f16, 16x16, A>
    %mb = tgk.coopmat_load %a[%g, 0] {column_major = true} : coopmat<f16, 16x16, B>
    %s = tgk.for %t = 0 to(3) iter_args(%acc = %start) : coopmat<f32, 16x16, acc> {
      %m = tgk.coopmat_mma %ma, %mb, %acc : coopmat<f32, 16x16, acc>
      tgk.yield %m : coopmat<f32, 16x16, acc>
    }
    %some = tgk.lt %g, 5 : bool
    %b = tgk.if %some : coopmat<f32, 16x16, acc> {
      %twice = tgk.mul %s, 2.0 : coopmat<f32, 16x16, acc>
      tgk.yield %twice : coopmat<f32, 16x16, acc>
    } else {
      tgk.yield %s : coopmat<f32, 16x16, acc>
    }
    %rows = tgk.coopmat_index {columns = false} : coopmat<f32, 16x16, acc>
    %columns = tgk.coopmat_index {columns = true} : coopmat<f32, 16x16, acc>
    %along = tgk.coopmat_repeat %bias[%g] {columns = true} : coopmat<f32, 16x16, acc>
    %down = tgk.coopmat_repeat %bias[3] {columns = false} : coopmat<f32, 16x16, acc>
    %b1 = tgk.fma %rows, %along, %b : coopmat<f32, 16x16, acc>
    %b2 = tgk.fma %columns, %down, %b1 : coopmat<f32, 16x16, acc>
    %top = tgk.coopmat_row_reduce %b1, %b2 {kind = max} : coopmat<f32, 16x16, acc>
    %sum = tgk.coopmat_row_reduce %b2 {kind = add} : coopmat<f32, 16x16, acc>
    %less = tgk.sub %b2, %top : coopmat<f32, 16x16, acc>
    %some_less = tgk.coopmat_any_above 14.0, %rows, %columns : bool
    %none_less = tgk.coopmat_any_above 15.0, %rows, %columns : bool
    %off = tgk.select %some_less, 0.25, 0.5 : f32
    %more = tgk.select %none_less, 16.0, %off : f32
    %moved = tgk.add %less, %more : coopmat<f32, 16x16, acc>
    %both = tgk.add %moved, %sum : coopmat<f32, 16x16, acc>
    tgk.coopmat_store %both, %z[%g, 2]
    %narrow = tgk.coopmat_convert %columns : coopmat<f16, 16x16, A>
    tgk.coopmat_store %narrow, %w[0, 0]
  })";

Target withShapes(std::vector<CoopShape> shapes) {
  Target target = *targetByName("gpu-coopmat");
  target.coopmat = std::move(shapes);
  return target;
}

Memory inputs() {
  std::vector<float> bias(32);
  for (size_t i = 0; i < bias.size(); ++i) bias[i] = static_cast<float>(i % 7) - 3;
  // Halves of small integers and their quarters: every product and sum is exact.
  std::vector<uint32_t> x(16 * 6 * 2);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = i % 3 == 0 ? 0x3c003800u : i % 3 == 1 ? 0xbc004000u : 0x34000000u;
  return {bytesOf(x), bytesOf(bias), Memory::value_type(24 * 20 * 4), Memory::value_type(16 * 8 * 4)};
}

Memory resultsOf(const Item& kernel) {
  Memory memory = inputs();
  KernelRunOptions options;
  options.subgroupSize = 32;
  const KernelCounters counters = run(kernel, memory, options);
  EXPECT_TRUE(counters.findings.empty()) << counters.findings.front();
  return memory;
}

class SplitMatrices : public testing::TestWithParam<CoopShape> {};

TEST_P(SplitMatrices, ComputesTheSame) {
  const auto whole = kernels(kEveryOp), parts = kernels(kEveryOp);
  ASSERT_TRUE(whole && parts);
  Item& kernel = *parts->find(ItemKind::kernel, "k");
  splitMatrices(kernel, withShapes({GetParam()}));
  const KernelNeeds needs = needsOf(verified(*parts));
  ASSERT_EQ(needs.products.size(), 1u);
  EXPECT_EQ(needs.products[0].m, GetParam().m);
  EXPECT_EQ(needs.products[0].n, GetParam().n);
  EXPECT_EQ(needs.products[0].k, GetParam().k);
  const Memory expected = resultsOf(verified(*whole)), got = resultsOf(kernel);
  EXPECT_EQ(valuesOf<float>(expected[2]), valuesOf<float>(got[2]));
  EXPECT_EQ(valuesOf<uint32_t>(expected[3]), valuesOf<uint32_t>(got[3]));
  EXPECT_NE(valuesOf<float>(got[2])[2], 0);
}

INSTANTIATE_TEST_SUITE_P(Shapes, SplitMatrices,
                         testing::Values(CoopShape{8, 8, 8}, CoopShape{8, 16, 16}, CoopShape{16, 8, 8},
                                         CoopShape{16, 16, 16}),
                         [](const auto& info) {
                           return std::to_string(info.param.m) + "x" + std::to_string(info.param.n) + "x" +
                                  std::to_string(info.param.k);
                         });

TEST(SplitMatricesChoice, TakesTheLargestShapeThatDivides) {
  const Target target = withShapes({{8, 8, 8},
                                    {16, 8, 16},
                                    {16, 16, 16, DType::bf16},
                                    {16, 16, 16, DType::f16, DType::f16},
                                    {12, 16, 16}});
  const CoopShape* shape = target.shapeFor({16, 16, 16});
  ASSERT_TRUE(shape);
  EXPECT_EQ(*shape, (CoopShape{16, 8, 16}));
  EXPECT_FALSE(target.shapeFor({16, 16, 4}));
  EXPECT_TRUE(target.multiplies(DType::f16));
  EXPECT_FALSE(withShapes({{32, 8, 16}}).multiplies(DType::f16));
}

TEST(SplitMatricesChoice, WhatNoShapeDividesStays) {
  const auto module = kernels(kEveryOp), same = kernels(kEveryOp);
  splitMatrices(*module->find(ItemKind::kernel, "k"), withShapes({{32, 8, 16}}));
  const KernelNeeds needs = needsOf(verified(*module));
  ASSERT_EQ(needs.products.size(), 1u);
  EXPECT_EQ(needs.products[0].m, 16);
}

}  // namespace
}  // namespace tg::test
