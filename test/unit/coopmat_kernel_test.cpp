// SPDX-License-Identifier: Apache-2.0
// Matrices of a subgroup in the kernel language, against formulas written here.
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "codegen/glsl.h"
#include "codegen/shader.h"
#include "ir/kernel/semantics.h"
#include "ir/target.h"
#include "test/unit/halves.h"
#include "test/unit/kernel_text.h"

namespace tg::test {
namespace {

constexpr const char* kProductKernel = R"(
  kernel @k(%x: buf<16x16xf32, in>, %y: buf<16x16xf32, in>, %z: buf<16x16xf32, out>)
      workgroup(32) grid(1) {
    %a = tgk.shared : buf<16x6xvec4<f16>, shared>
    %b = tgk.shared : buf<16x6xvec4<f16>, shared>
    %p = tgk.shared : buf<16x20xf32, shared>
    %l = tgk.local_id 0 : u32
    tgk.for %e = %l to(64) step(32) {
      %r = tgk.div %e, 4 : u32
      %q = tgk.mod %e, 4 : u32
      %c = tgk.mul %q, 4 : u32
      %c1 = tgk.add %c, 1 : u32
      %c2 = tgk.add %c, 2 : u32
      %c3 = tgk.add %c, 3 : u32
      %x0 = tgk.load %x[%r, %c] : f32
      %x1 = tgk.load %x[%r, %c1] : f32
      %x2 = tgk.load %x[%r, %c2] : f32
      %x3 = tgk.load %x[%r, %c3] : f32
      %xv = tgk.vec %x0, %x1, %x2, %x3 : vec4<f32>
      tgk.store %xv, %a[%r, %q]
      %y0 = tgk.load %y[%r, %c] : f32
      %y1 = tgk.load %y[%r, %c1] : f32
      %y2 = tgk.load %y[%r, %c2] : f32
      %y3 = tgk.load %y[%r, %c3] : f32
      %yv = tgk.vec %y0, %y1, %y2, %y3 : vec4<f32>
      tgk.store %yv, %b[%r, %q]
    }
    tgk.barrier
    %zero = tgk.coopmat_splat 0.5 : coopmat<f32, 16x16, acc>
    %ma = tgk.coopmat_load %a[0, 0] : coopmat<f16, 16x16, A>
    %mb = tgk.coopmat_load %b[0, 0] {column_major = true} : coopmat<f16, 16x16, B>
    %s = tgk.for %t = 0 to(2) iter_args(%acc = %zero) : coopmat<f32, 16x16, acc> {
      %m = tgk.coopmat_mma %ma, %mb, %acc : coopmat<f32, 16x16, acc>
      tgk.yield %m : coopmat<f32, 16x16, acc>
    }
    %s2 = tgk.add %s, %zero : coopmat<f32, 16x16, acc>
    tgk.coopmat_store %s2, %p[0, 0]
    tgk.barrier
    tgk.for %e = %l to(256) step(32) {
      %r = tgk.div %e, 16 : u32
      %c = tgk.mod %e, 16 : u32
      %v = tgk.load %p[%r, %c] : f32
      %w = tgk.round_f16 %v : f32
      tgk.store %v, %z[%r, %c]
    }
  })";

/// z = start + times · a·bᵀ, all 16x16.
void expectSums(const std::vector<std::byte>& z, double start, double times, const std::vector<double>& a,
                const std::vector<double>& b) {
  const std::vector<float> got = valuesOf<float>(z);
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 16; ++j) {
      double sum = start;
      for (int k = 0; k < 16; ++k) sum += times * a[i * 16 + k] * b[j * 16 + k];
      EXPECT_NEAR(got[i * 16 + j], sum, 1e-5);
    }
}

TEST(CoopmatKernel, MultipliesWhatTheSubgroupHolds) {
  auto module = kernels(kProductKernel);
  ASSERT_TRUE(module);
  const Item& kernel = verified(*module);
  NdArray x = drawn({16, 16}, 3), y = drawn({16, 16}, 4);
  std::vector<float> xs(x.data.begin(), x.data.end()), ys(y.data.begin(), y.data.end());
  std::vector<double> rounded[2];
  for (float each : xs) rounded[0].push_back(half(each));
  for (float each : ys) rounded[1].push_back(half(each));
  Memory memory{bytesOf(xs), bytesOf(ys), bytesOf(std::vector<float>(256))};
  for (KernelRunOptions options : schedules()) {
    options.subgroupSize = 32;
    Memory copy = memory;
    KernelCounters counters = run(kernel, copy, options);
    EXPECT_TRUE(counters.findings.empty()) << counters.findings.front();
    expectSums(copy[2], 1, 2, rounded[0], rounded[1]);  // twice the product, on top of 0.5 and 0.5
  }
}

/// What memory holds as 16-bit reals, copied as words, multiplied, and stored as matrices.
constexpr const char* kWordsKernel = R"(
  kernel @k(%x: buf<16x2xvec4<u32>, in>, %y: buf<16x2xvec4<u32>, in>, %z: buf<16x16xf32, out>)
      workgroup(32) grid(1) {
    %a = tgk.shared : buf<16x3xvec4<u32>, shared>
    %b = tgk.shared : buf<16x3xvec4<u32>, shared>
    %l = tgk.local_id 0 : u32
    %r = tgk.div %l, 2 : u32
    %q = tgk.mod %l, 2 : u32
    %xv = tgk.load %x[%r, %q] : vec4<u32>
    tgk.store %xv, %a[%r, %q]
    %yv = tgk.load %y[%r, %q] : vec4<u32>
    tgk.store %yv, %b[%r, %q]
    tgk.barrier
    %zero = tgk.coopmat_splat 0.5 : coopmat<f32, 16x16, acc>
    %s, %m = tgk.for %t = 0 to(1) iter_args(%acc = %zero, %u = 0) {rolled = true} : coopmat<f32, 16x16, acc>, u32 {
      %ma = tgk.coopmat_load %a[0, 0] : coopmat<REAL, 16x16, A>
      %mb = tgk.coopmat_load %b[0, 0] {column_major = true} : coopmat<REAL, 16x16, B>
      %p = tgk.coopmat_mma %ma, %mb, %acc : coopmat<f32, 16x16, acc>
      tgk.yield %p, %t : coopmat<f32, 16x16, acc>, u32
    }
    tgk.coopmat_store %s, %z[0, 0]
  })";

TEST(CoopmatKernel, MultipliesWordsOfTwoAndStoresToMemory) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    std::string text = kWordsKernel;
    for (size_t at; (at = text.find("REAL")) != std::string::npos;) text.replace(at, 4, name(dtype));
    auto module = kernels(text);
    ASSERT_TRUE(module);
    const Item& kernel = verified(*module);
    std::vector<double> values[2];
    Memory memory;
    for (uint32_t which = 0; which < 2; ++which) {
      std::vector<uint16_t> bits;
      for (const double each : drawn({16, 16}, 3 + which).data) {
        bits.push_back(narrowBits(dtype, each));
        values[which].push_back(narrowValue(dtype, bits.back()));
      }
      memory.push_back(bytesOf(bits));
    }
    memory.push_back(bytesOf(std::vector<float>(256)));
    for (KernelRunOptions options : schedules()) {
      options.subgroupSize = 32;
      Memory copy = memory;
      KernelCounters counters = run(kernel, copy, options);
      EXPECT_TRUE(counters.findings.empty()) << counters.findings.front();
      expectSums(copy[2], 0.5, 1, values[0], values[1]);
    }
    auto glsl = printGlsl(kernel, withBf16());
    ASSERT_TRUE(glsl) << glsl.error().str();
    EXPECT_NE(glsl->text.find("[[dont_unroll]] for"), std::string::npos) << glsl->text;
    EXPECT_NE(glsl->text.find("shared uvec4"), std::string::npos) << glsl->text;
    auto words = compileGlsl(*glsl, "k");
    EXPECT_TRUE(words) << words.error().str();
  }
}

TEST(CoopmatKernel, ASubgroupThatIsNotFullIsFound) {
  auto module = kernels(kProductKernel);
  ASSERT_TRUE(module);
  Memory memory(3, bytesOf(std::vector<float>(256)));
  KernelRunOptions options;
  options.subgroupSize = 64;
  EXPECT_FALSE(run(verified(*module), memory, options).findings.empty());
}

TEST(CoopmatKernel, PrintsWhatItParsed) {
  auto module = kernels(kProductKernel);
  ASSERT_TRUE(module);
  auto again = parse(print(*module), "again.tgir");
  ASSERT_TRUE(again) << again.error().str();
  EXPECT_EQ(print(**again), print(*module));
}

TEST(CoopmatKernel, CompilesForATargetWithMatricesAndForNoOther) {
  auto module = kernels(kProductKernel);
  ASSERT_TRUE(module);
  const Item& kernel = verified(*module);
  std::set<Opcode> used;
  walk(kernel.body, [&](Op& op) {
    if (isCoopmatOp(op.code)) used.insert(op.code);
  });
  EXPECT_EQ(used.size(), 4u);  // every one of them has a form; fragments_test has the others
  auto glsl = printGlsl(kernel, *targetByName("gpu-coopmat"));
  ASSERT_TRUE(glsl) << glsl.error().str();
  auto words = compileGlsl(*glsl, "k");
  EXPECT_TRUE(words) << words.error().str();
  auto refused = printGlsl(kernel, *targetByName("gpu"));
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().str().find(
                "tgk.coopmat_mma [kernel.feature]: needs `coopmat` of [16, 16, 16, f16, f32], "
                "which target 'gpu' lacks"),
            std::string::npos)
      << refused.error().str();
}

TEST(CoopmatKernel, SharedHalvesNeedNoMatrices) {
  auto module = kernels(R"(
  kernel @k(%x: buf<8xf32, in>, %z: buf<8xf32, out>) workgroup(4) grid(1) {
    %s = tgk.shared : buf<4xvec2<f16>, shared>
    %l = tgk.local_id 0 : u32
    %i = tgk.mul %l, 2 : u32
    %i1 = tgk.add %i, 1 : u32
    %x0 = tgk.load %x[%i] : f32
    %x1 = tgk.load %x[%i1] : f32
    %v = tgk.vec %x0, %x1 : vec2<f32>
    tgk.store %v, %s[%l]
    tgk.barrier
    %o = tgk.xor %l, 1 : u32
    %w = tgk.load %s[%o] : vec2<f32>
    %w0 = tgk.extract %w, 0 : f32
    %w1 = tgk.extract %w, 1 : f32
    tgk.store %w0, %z[%i]
    tgk.store %w1, %z[%i1]
  })");
  ASSERT_TRUE(module);
  NdArray x = drawn({8}, 5);
  std::vector<float> xs(x.data.begin(), x.data.end());
  runAll(verified(*module), {bytesOf(xs), bytesOf(std::vector<float>(8))}, [&](const Memory& memory) {
    std::vector<float> z = valuesOf<float>(memory[1]);
    for (int i = 0; i < 8; ++i) EXPECT_EQ(z[i], half(xs[i ^ 2]));
  });
  auto glsl = printGlsl(verified(*module), *targetByName("vulkan-min"));
  ASSERT_TRUE(glsl) << glsl.error().str();
  auto words = compileGlsl(*glsl, "k");
  EXPECT_TRUE(words) << words.error().str();
}

}  // namespace
}  // namespace tg::test
