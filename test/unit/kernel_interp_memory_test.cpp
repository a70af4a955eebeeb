// SPDX-License-Identifier: Apache-2.0
// What kernels keep in memory: atomics, accumulations, exact sums, f16, open extents, tapes.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "test/unit/kernel_text.h"

namespace tg::test {
namespace {

TEST(KernelInterpMemory, AtomicsFromAllWorkgroups) {
  auto module = kernels(R"(kernel @k(%f: buf<2xf32, accum>, %n: buf<2xi32, accum>) workgroup(8) grid(5) {
    %i = tgk.global_id 0 : u32
    %s = tgk.shared : buf<2xu32, shared>
    %l = tgk.local_id 0 : u32
    %b = tgk.lt %l, 2 : bool
    tgk.if %b {
      tgk.store 0, %s[%l]
    }
    tgk.barrier
    %odd = tgk.and %i, 1 : u32
    tgk.atomic_add 3, %s[%odd]
    tgk.barrier
    tgk.if %b {
      %sum = tgk.load %s[%l] : u32
      %isum = tgk.cast %sum : i32
      tgk.atomic_add %isum, %n[%l]
    }
    %v = tgk.cast %i : f32
    tgk.atomic_add %v, %f[%odd]
  })");
  runAll(verified(*module), {bytesOf<float>({0, 0}), bytesOf<int32_t>({0, -1})}, [&](const Memory& memory) {
    EXPECT_EQ(valuesOf<float>(memory[0]),
              (std::vector<float>{380, 400}));  // sums of the even and odd below 40
    EXPECT_EQ(valuesOf<int32_t>(memory[1]), (std::vector<int32_t>{60, 59}));
  });
}

/// One invocation does each atomic on an element of its own; %o has the old values.
std::string eachAtomic(const std::string& type, const std::vector<std::string>& lines) {
  std::string n = std::to_string(lines.size());
  std::string text = "kernel @k(%x: buf<" + n + "x" + type + ", inout>, %o: buf<" + n + "x" + type +
                     ", out>) workgroup(1) grid(1) {\n";
  for (size_t at = 0; at < lines.size(); ++at) {
    std::string index = std::to_string(at);
    text += "%r" + index + " = tgk.atomic_" + lines[at] + ", %x[" + index + "] : " + type + "\n";
    text += "tgk.store %r" + index + ", %o[" + index + "]\n";
  }
  return text + "}";
}

TEST(KernelInterpMemory, AtomicsOfIntegersGiveTheOldValue) {
  const std::vector<std::string> lines{"add 5",
                                       "and 12",
                                       "or 12",
                                       "xor 12",
                                       "min 2",
                                       "max 2",
                                       "exchange 9",
                                       "compare_exchange 10, 4",
                                       "compare_exchange 11, 4"};
  std::vector<uint32_t> before(9, 10);
  runAll(verified(*kernels(eachAtomic("u32", lines))), {bytesOf(before), Memory::value_type(36)},
         [&](const Memory& memory) {
           EXPECT_EQ(valuesOf<uint32_t>(memory[0]), (std::vector<uint32_t>{15, 8, 14, 6, 2, 10, 9, 4, 10}));
           EXPECT_EQ(valuesOf<uint32_t>(memory[1]), before);
         });
  // -10 is below 2 as i32 and above it as u32.
  std::vector<int32_t> negative(2, -10);
  for (std::string type : {"i32", "u32"}) {
    auto module = kernels(eachAtomic(type, {"min 2", "max 2"}));
    bool isSigned = type == "i32";
    runAll(verified(*module), {bytesOf(negative), Memory::value_type(8)}, [&](const Memory& memory) {
      EXPECT_EQ(valuesOf<int32_t>(memory[0]),
                (isSigned ? std::vector<int32_t>{-10, 2} : std::vector<int32_t>{2, -10}));
      EXPECT_EQ(valuesOf<int32_t>(memory[1]), negative);
    });
  }
}

TEST(KernelInterpMemory, AtomicsOfFloatsCompareBits) {
  auto module = kernels(eachAtomic("f32", {"add 0.25", "exchange 9.0", "compare_exchange 0.0, 4.0",
                                           "compare_exchange 0.0, 4.0", "compare_exchange 1.5, 4.0"}));
  std::vector<float> before{1.5f, 1.5f, 0.0f, -0.0f, 1.5f};
  runAll(verified(*module), {bytesOf(before), Memory::value_type(20)}, [&](const Memory& memory) {
    EXPECT_EQ(memory[0], bytesOf<float>({1.75f, 9.0f, 4.0f, -0.0f, 4.0f}));
    EXPECT_EQ(memory[1], bytesOf(before));
  });
}

TEST(KernelInterpMemory, OldValuesAreTicketsForEverybody) {
  auto module = kernels(R"(kernel @k(%n: buf<1xu32, inout>, %o: buf<24xu32, out>) workgroup(8) grid(3) {
    %i = tgk.global_id 0 : u32
    %s = tgk.shared : buf<1xu32, shared>
    %l = tgk.local_id 0 : u32
    %first = tgk.eq %l, 0 : bool
    tgk.if %first {
      tgk.atomic_exchange 0, %s[0]
    }
    tgk.barrier
    %mine = tgk.atomic_add 1, %s[0] : u32
    %ticket = tgk.atomic_add 1, %n[0] : u32
    %low = tgk.lt %mine, 8 : bool
    tgk.if %low {
      tgk.store %i, %o[%ticket]
    }
  })");
  std::vector<uint32_t> everybody(24);
  std::iota(everybody.begin(), everybody.end(), 0u);
  runAll(verified(*module), {Memory::value_type(4), Memory::value_type(96)}, [&](const Memory& memory) {
    EXPECT_EQ(valuesOf<uint32_t>(memory[0])[0], 24u);
    auto owners = valuesOf<uint32_t>(memory[1]);
    std::sort(owners.begin(), owners.end());
    EXPECT_EQ(owners, everybody);
  });
}

TEST(KernelInterpMemory, AccumulateAddsWhereNobodyElseDoes) {
  auto module =
      kernels(R"(kernel @k(%a: buf<4xf32, accum>, %b: buf<4xvec2<f32>, inout>) workgroup(4) grid(1) {
    %i = tgk.global_id 0 : u32
    %f = tgk.cast %i : f32
    %l = tgk.local : buf<1xf32, local>
    tgk.store 0.5, %l[0]
    %v = tgk.vec %f, 2.0 : vec2<f32>
    tgk.for %k = 0 to(3) {
      tgk.accumulate %f, %a[%i]
      tgk.accumulate 1.0, %l[0]
      tgk.accumulate %v, %b[%i]
      tgk.accumulate 0.25, %b[%i]
    }
    %sum = tgk.load %l[0] : f32
    tgk.accumulate %sum, %a[%i]
  })");
  std::vector<float> zero(4, 0.0f), b{0, 0, 0, 0, 0, 0, 1, 1};
  runAll(verified(*module), {bytesOf(zero), bytesOf(b)}, [](const Memory& memory) {
    EXPECT_EQ(valuesOf<float>(memory[0]), (std::vector<float>{3.5f, 6.5f, 9.5f, 12.5f}));
    EXPECT_EQ(valuesOf<float>(memory[1]),
              (std::vector<float>{0.75f, 6.75f, 3.75f, 6.75f, 6.75f, 6.75f, 10.75f, 7.75f}));
  });
}

/// Sums %x twice: into the words of a parameter, from all invocations, and in shared memory.
constexpr const char* kExact =
    R"(kernel @k(%x: buf<12xf32, in>, %s: buf<2x11xi32, inout>, %o: buf<4xf32, out>)
    workgroup(6) grid(2) {
  %i = tgk.global_id 0 : u32
  %l = tgk.local_id 0 : u32
  %w = tgk.workgroup_id 0 : u32
  %t = tgk.shared : buf<1x11xi32, shared>
  %first = tgk.eq %l, 0 : bool
  tgk.if %first {
    tgk.exact_store 0.5, %t[0]
  }
  tgk.barrier
  %v = tgk.load %x[%i] : f32
  tgk.exact_add %v, %s[1]
  tgk.exact_add %v, %t[0]
  tgk.barrier
  tgk.if %first {
    %sum = tgk.exact_load %t[0] : f32
    tgk.store %sum, %o[%w]
  }
})";

TEST(KernelInterpMemory, ExactSumsForgetTheOrder) {
  std::vector<float> x{1e30f, 1.0f, -1e30f, 0x1p-149f, -1.0f, 3.0f, 1e8f, 1.0f, 1.0f, 1.0f, 1.0f, -7.0f};
  std::vector<std::vector<std::byte>> sums;
  auto module = kernels(kExact);
  runAll(verified(*module), {bytesOf(x), Memory::value_type(88), Memory::value_type(16)},
         [&](const Memory& memory) {
           auto o = valuesOf<float>(memory[2]);
           EXPECT_EQ(o[0], 3.5f);  // 3 + 2^-149 + 0.5, rounded once
           EXPECT_EQ(o[1], 1e8f);  // less 2.5, which the nearest f32 drops
           sums.push_back(memory[1]);
         });
  for (const auto& words : sums) EXPECT_EQ(words, sums.front());
  auto words = valuesOf<int32_t>(sums.front());
  EXPECT_EQ(words[11], 1);  // the 2^-149 is there
  for (size_t at = 0; at < 11; ++at) EXPECT_EQ(words[at], 0);
}

TEST(KernelInterpMemory, ExactSumsFlagWhatIsNotFinite) {
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> x(12, 1.0f);
  x[2] = inf;
  x[7] = inf;
  x[9] = -inf;
  auto module = kernels(kExact);
  runAll(verified(*module), {bytesOf(x), Memory::value_type(88), Memory::value_type(16)},
         [&](const Memory& memory) {
           auto o = valuesOf<float>(memory[2]);
           EXPECT_EQ(o[0], inf);
           EXPECT_TRUE(std::isnan(o[1]));
           EXPECT_EQ(valuesOf<int32_t>(memory[1])[21], 6);
         });
}

TEST(KernelInterpMemory, HalvesAreRoundedWhereTheyAreStored) {
  auto module = kernels(R"(kernel @k(%x: buf<8xf32, in>, %h: buf<8xf16, out>, %s: buf<4xvec2<f16>, inout>,
      %t: buf<8xf16, tape>, %o: buf<8xf32, out>) workgroup(8) grid(1) {
    %i = tgk.global_id 0 : u32
    %v = tgk.load %x[%i] : f32
    tgk.store %v, %h[%i]
    tgk.store %v, %t[%i]
    tgk.barrier
    %j = tgk.sub 7, %i : u32
    %w = tgk.load %t[%j] : f32
    tgk.store %w, %o[%i]
    %low = tgk.lt %i, 4 : bool
    tgk.if %low {
      %p = tgk.load %s[%i] : vec2<f32>
      %q = tgk.mul %p, 3.0 : vec2<f32>
      tgk.store %q, %s[%i]
    }
  })");
  std::vector<float> x{1.0f + 0x1p-11f, 1.0f + 3 * 0x1p-11f, 65519.0f, 65520.0f,
                       0x1p-25f,        0x1.8p-25f,          -0.1f,    2.0f};
  std::vector<uint16_t> bits{0x3c00, 0x3c02, 0x7bff, 0x7c00, 0x0000, 0x0001, 0xae66, 0x4000};
  std::vector<float> rounded{1.0f, 1.0f + 0x1p-9f, 65504.0f,     std::numeric_limits<float>::infinity(),
                             0.0f, 0x1p-24f,       -0x1.998p-4f, 2.0f};
  std::reverse(rounded.begin(), rounded.end());
  std::vector<uint16_t> pairs{0x3c00, 0x4000, 0x7bff, 0x0001, 0x3555, 0, 0x8000, 0xbc00},
      tripled{0x4200, 0x4600, 0x7c00, 0x0003, 0x3c00, 0, 0x8000, 0xc200};
  runAll(verified(*module),
         {bytesOf(x), Memory::value_type(16), bytesOf(pairs), Memory::value_type(16), Memory::value_type(32)},
         [&](const Memory& memory) {
           EXPECT_EQ(valuesOf<uint16_t>(memory[1]), bits);
           EXPECT_EQ(valuesOf<float>(memory[4]), rounded);
           EXPECT_EQ(valuesOf<uint16_t>(memory[2]), tripled);
         });
}

/// Bytes with extents, as a caller that knows the shape gives them.
KernelBuffer shaped(std::vector<std::byte>& bytes, const Shape& shape) {
  return {bytes.data(), static_cast<int64_t>(bytes.size()), shape};
}

TEST(KernelInterpMemory, OpenExtentsOnAnyAxis) {
  auto module = kernels(R"(kernel @k(%x: buf<2x?x?xf32, in>, %o: buf<?x2xf32, out>) workgroup(4) grid(1) {
    %c = tgk.local_id 0 : u32
    %rows = tgk.dim %x, 1 : u32
    %columns = tgk.dim %x, 2 : u32
    %in = tgk.lt %c, %columns : bool
    tgk.if %in {
      tgk.for %p = 0 to(2) {
        %sum = tgk.for %r = 0 to(%rows) iter_args(%s = 0.0) : f32 {
          %v = tgk.load %x[%p, %r, %c] : f32
          %t = tgk.add %s, %v : f32
          tgk.yield %t : f32
        }
        tgk.store %sum, %o[%c, %p]
      }
    }
  })");
  const Item& kernel = verified(*module);
  std::vector<float> values(18);
  std::iota(values.begin(), values.end(), 0.0f);
  auto x = bytesOf(values);
  for (const KernelRunOptions& options : schedules()) {
    Memory::value_type o(24);
    std::vector<KernelBuffer> buffers{shaped(x, {2, 3, 3}), {o.data(), 24}};
    auto counters = runKernel(kernel, buffers, {1, 1, 1}, options);
    ASSERT_TRUE(counters) << counters.error().str();
    EXPECT_TRUE(counters->findings.empty());
    EXPECT_EQ(valuesOf<float>(o), (std::vector<float>{9, 36, 12, 39, 15, 42}));
  }
  Memory::value_type o(24);
  auto message = [&](const Shape& shape) {
    std::vector<KernelBuffer> buffers{shaped(x, shape), {o.data(), 24}};
    auto result = runKernel(kernel, buffers, {1, 1, 1});
    return result ? std::string() : result.error().message();
  };
  EXPECT_NE(message({}).find("%x is buf<2x?x?xf32, in>, and no shape is given"), std::string::npos);
  EXPECT_NE(message({3, 3, 2}).find("not of shape 3x3x2"), std::string::npos) << message({3, 3, 2});
  EXPECT_NE(message({2, 9}).find("not of shape 2x9"), std::string::npos);
  EXPECT_NE(message({2, 4, 3}).find("%x needs 96 bytes, 72 are given"), std::string::npos);
  EXPECT_EQ(message({2, 0, 3}), "");
}

TEST(KernelInterpMemory, TapesHoldWhatWasWrittenBefore) {
  auto module = kernels(R"(kernel @k(%x: buf<6xf32, in>, %t: buf<3x6xf32, tape>, %o: buf<6xf32, out>)
      workgroup(3) grid(2) {
    %i = tgk.global_id 0 : u32
    %v = tgk.load %x[%i] : f32
    %last = tgk.for %k = 0 to(3) iter_args(%h = %v) : f32 {
      tgk.store %h, %t[%k, %i]
      %n = tgk.mul %h, %h : f32
      tgk.yield %n : f32
    }
    %sum = tgk.for %r = 0 to(3) iter_args(%s = 0.0) : f32 {
      %k = tgk.sub 2, %r : u32
      %h = tgk.load %t[%k, %i] : f32
      %a = tgk.add %s, %h : f32
      tgk.yield %a : f32
    }
    tgk.store %sum, %o[%i]
  })");
  std::vector<float> x{0, 1, 2, 3, -1, 0.5f}, sums;
  for (float v : x) sums.push_back(v * v * v * v + v * v + v);
  std::vector<float> garbage(18, std::nanf(""));
  runAll(verified(*module), {bytesOf(x), bytesOf(garbage), Memory::value_type(24)},
         [&](const Memory& memory) { EXPECT_EQ(valuesOf<float>(memory[2]), sums); });
}

}  // namespace
}  // namespace tg::test
