// SPDX-License-Identifier: Apache-2.0
// Kernels on the interpreter: what whole programs compute, under every schedule.
#include <array>
#include <cmath>
#include <utility>

#include "test/unit/kernel_text.h"

namespace tg::test {
namespace {

TEST(KernelInterp, GuardedMap) {
  auto module =
      kernels(R"(kernel @k(%a: buf<1xf32, in>, %x: buf<?xf32, in>, %o: buf<?xf32, out>) workgroup(8) grid(2) {
    %i = tgk.global_id 0 : u32
    %n = tgk.dim %o, 0 : u32
    %in = tgk.lt %i, %n : bool
    tgk.if %in {
      %av = tgk.load %a[0] : f32
      %xv = tgk.load %x[%i] : f32
      %r = tgk.fma %av, %xv, 0.1 : f32
      tgk.store %r, %o[%i]
    }
  })");
  std::vector<float> x;
  for (int i = 0; i < 13; ++i) x.push_back(1.0f / static_cast<float>(i + 3));
  runAll(verified(*module), {bytesOf<float>({1.7f}), bytesOf(x), Memory::value_type(13 * 4)},
         [&](const Memory& memory) {
           auto o = valuesOf<float>(memory[2]);
           for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(o[i], std::fma(1.7f, x[i], 0.1f));
         });
}

TEST(KernelInterp, SharedTreeAndWorkgroupIds) {
  auto module =
      kernels(R"(kernel @k(%x: buf<3x16xf32, in>, %o: buf<3xf32, out>) workgroup(16, 1, 1) grid(3, 1, 1) {
    %l = tgk.local_id 0 : u32
    %r = tgk.workgroup_id 0 : u32
    %s = tgk.shared : buf<16xf32, shared>
    %v = tgk.load %x[%r, %l] : f32
    tgk.store %v, %s[%l]
    tgk.barrier
    tgk.for %k = 0 to(4) {
      %w = tgk.shr 8, %k : u32
      %h = tgk.lt %l, %w : bool
      tgk.if %h {
        %j = tgk.add %l, %w : u32
        %u0 = tgk.load %s[%l] : f32
        %u1 = tgk.load %s[%j] : f32
        %u = tgk.add %u0, %u1 : f32
        tgk.store %u, %s[%l]
      }
      tgk.barrier
    }
    %z = tgk.eq %l, 0 : bool
    tgk.if %z {
      %t = tgk.load %s[0] : f32
      tgk.store %t, %o[%r]
    }
  })");
  std::vector<float> x, sums(3, 0.0f);
  for (int i = 0; i < 48; ++i) {
    x.push_back(static_cast<float>(i * i % 17));  // small integers: every order of summation is exact
    sums[static_cast<size_t>(i) / 16] += x.back();
  }
  runAll(verified(*module), {bytesOf(x), Memory::value_type(12)},
         [&](const Memory& memory) { EXPECT_EQ(valuesOf<float>(memory[1]), sums); });
}

TEST(KernelInterp, CarriedValuesSwap) {
  auto module = kernels(R"(kernel @k(%o: buf<32xu32, out>) workgroup(32) grid(1) {
    %i = tgk.global_id 0 : u32
    %a, %b = tgk.for %k = 0 to(%i) iter_args(%p = 0, %q = 1) : u32, u32 {
      %s = tgk.add %p, %q : u32
      tgk.yield %q, %s : u32, u32
    }
    %c, %d = tgk.for %k2 = 1 to(%i) step(3) iter_args(%e = %a, %f = %b) : u32, u32 {
      tgk.yield %f, %e : u32, u32
    }
    tgk.store %c, %o[%i]
  })");
  std::vector<uint32_t> expected;
  for (uint32_t i = 0; i < 32; ++i) {
    uint32_t p = 0, q = 1;
    for (uint32_t k = 0; k < i; ++k) {
      p += q;
      std::swap(p, q);
    }
    for (uint32_t k = 1; k < i; k += 3) std::swap(p, q);
    expected.push_back(p);
  }
  runAll(verified(*module), {Memory::value_type(128)},
         [&](const Memory& memory) { EXPECT_EQ(valuesOf<uint32_t>(memory[0]), expected); });
}

TEST(KernelInterp, IfResultsVectorsAndLocals) {
  auto module = kernels(
      R"(kernel @k(%x: buf<4xvec4<f32>, in, texel>, %o: buf<4xvec4<f32>, out>, %p: buf<4xf32, out>)
      workgroup(4) grid(1) {
    %i = tgk.global_id 0 : u32
    %v = tgk.load %x[%i] : vec4<f32>
    %two = tgk.vec 2.0 : vec4<f32>
    %w = tgk.mul %v, %two : vec4<f32>
    %m = tgk.lt %w, 3.0 : vec4<bool>
    %s = tgk.select %m, %w, -1.0 : vec4<f32>
    %odd = tgk.and %i, 1 : u32
    %isOdd = tgk.cast %odd : bool
    %r = tgk.if %isOdd : vec4<f32> {
      %l = tgk.local : buf<4xf32, local>
      tgk.for %k = 0 to(4) {
        %kf = tgk.cast %k : f32
        tgk.store %kf, %l[%k]
      }
      %l1 = tgk.load %l[1] : f32
      %l3 = tgk.load %l[3] : f32
      %mixed = tgk.vec %l3, %l1, 0.5, %l3 : vec4<f32>
      tgk.yield %mixed : vec4<f32>
    } else {
      tgk.yield %s : vec4<f32>
    }
    tgk.store %r, %o[%i]
    %z = tgk.extract %r, 2 : f32
    tgk.store %z, %p[%i]
  })");
  std::vector<float> x, o, p;
  for (int i = 0; i < 16; ++i) x.push_back(static_cast<float>(i) * 0.25f);
  for (int i = 0; i < 4; ++i) {
    std::array<float, 4> r{3, 1, 0.5f, 3};
    if (i % 2 == 0)
      for (int lane = 0; lane < 4; ++lane) {
        float w = 2 * x[static_cast<size_t>(4 * i + lane)];
        r[static_cast<size_t>(lane)] = w < 3 ? w : -1;
      }
    o.insert(o.end(), r.begin(), r.end());
    p.push_back(r[2]);
  }
  runAll(verified(*module), {bytesOf(x), Memory::value_type(64), Memory::value_type(16)},
         [&](const Memory& memory) {
           EXPECT_EQ(valuesOf<float>(memory[1]), o);
           EXPECT_EQ(valuesOf<float>(memory[2]), p);
         });
}

TEST(KernelInterp, CallsAreInlinedFromTheModule) {
  auto module = kernels(R"(func @square(%x: f32) -> (y: f32) {
    %y = tgk.mul %x, %x : f32
    return %y : f32
  }
  func @norm(%x: f32, %y: f32) -> (n: f32) {
    %a = tgk.call @square(%x) : f32
    %b = tgk.call @square(%y) : f32
    %s = tgk.add %a, %b : f32
    %n = tgk.sqrt %s : f32
    return %n : f32
  }
  kernel @k(%x: buf<4xf32, in>, %o: buf<4xf32, out>) workgroup(4) grid(1) {
    %i = tgk.global_id 0 : u32
    %v = tgk.load %x[%i] : f32
    %n = tgk.call @norm(%v, 4.0) : f32
    tgk.store %n, %o[%i]
  })");
  Memory memory{bytesOf<float>({3, 0, -3, 7.5f}), Memory::value_type(16)};
  for (KernelRunOptions options : schedules()) {
    options.module = module.get();
    EXPECT_TRUE(run(*module->find(ItemKind::kernel, "k"), memory, options).findings.empty());
    EXPECT_EQ(valuesOf<float>(memory[1]), (std::vector<float>{5, 4, 5, 8.5f}));
  }
  std::vector<KernelBuffer> buffers{{memory[0].data(), 16}, {memory[1].data(), 16}};
  auto alone = runKernel(*module->find(ItemKind::kernel, "k"), buffers, {1, 1, 1});
  ASSERT_FALSE(alone);
  EXPECT_NE(alone.error().message().find("calls @norm, and the run is given no module"), std::string::npos);
}

}  // namespace
}  // namespace tg::test
