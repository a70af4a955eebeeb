// SPDX-License-Identifier: Apache-2.0
// Memory and cooperation of the kernel language on a device: atomics, exact sums, f16, subgroups, barriers.
#include <fmt/format.h>

#include <cmath>
#include <random>
#include <set>

#include "ir/kernel/exact_sum.h"
#include "test/unit/kernel_device.h"

namespace tg::test {
namespace {

using KernelMemory = DeviceTest;

// 256 invocations on each word; what they got back is a permutation of what was there one after the other.
TEST_F(KernelMemory, IntegerAtomics) {
  auto module = kernels(R"(kernel @k(%m: buf<8xu32, inout>, %s: buf<4xi32, inout>, %old: buf<256xu32, out>,
      %swapped: buf<256xu32, out>) workgroup(64) grid(4) {
    %i = tgk.global_id 0 : u32
    %j = tgk.cast %i : i32
    %n = tgk.sub 100, %j : i32
    %bit = tgk.shl 1, %i : u32
    %not = tgk.not %bit : u32
    %o = tgk.atomic_add 1, %m[0] : u32
    tgk.store %o, %old[%i]
    tgk.atomic_and %not, %m[1]
    tgk.atomic_or %bit, %m[2]
    tgk.atomic_xor %i, %m[3]
    tgk.atomic_min %i, %m[4]
    tgk.atomic_max %i, %m[5]
    %e = tgk.atomic_exchange %i, %m[6] : u32
    tgk.store %e, %swapped[%i]
    tgk.atomic_compare_exchange 77, %i, %m[7]
    tgk.atomic_add %n, %s[0]
    tgk.atomic_min %n, %s[1]
    tgk.atomic_max %n, %s[2]
    %first = tgk.atomic_compare_exchange -1, %j, %s[3] : i32
  })");
  verified(*module);
  Memory memory{bytesOf(std::vector<uint32_t>{5, ~0u, 0, 9, 1000, 3, 4242, 77}),
                bytesOf(std::vector<int32_t>{0, 500, -500, -1}), std::vector<std::byte>(1024),
                std::vector<std::byte>(1024)};
  onDevice(*module, memory);
  auto m = valuesOf<uint32_t>(memory[0]);
  auto s = valuesOf<int32_t>(memory[1]);
  uint32_t all = 9;
  for (uint32_t i = 0; i < 256; ++i) all ^= i;
  EXPECT_EQ(m[0], 261u);
  EXPECT_EQ(m[1], 0u);
  EXPECT_EQ(m[2], ~0u);
  EXPECT_EQ(m[3], all);
  EXPECT_EQ(m[4], 0u);
  EXPECT_EQ(m[5], 255u);
  EXPECT_TRUE(m[7] < 256 && m[7] != 77) << m[7];
  EXPECT_EQ(s[0], 256 * 100 - 255 * 128);
  EXPECT_EQ(s[1], -155);
  EXPECT_EQ(s[2], 100);
  EXPECT_TRUE(s[3] >= 0 && s[3] < 256);
  auto old = valuesOf<uint32_t>(memory[2]), swapped = valuesOf<uint32_t>(memory[3]);
  std::set<uint32_t> seen(old.begin(), old.end()), chain(swapped.begin(), swapped.end());
  EXPECT_EQ(seen.size(), 256u);
  EXPECT_EQ(*seen.begin(), 5u);
  EXPECT_EQ(*seen.rbegin(), 260u);
  chain.insert(m[6]);  // each value was taken out once, and the last is still there
  EXPECT_EQ(chain.size(), 257u);
  EXPECT_TRUE(chain.contains(4242));
}

TEST_F(KernelMemory, FloatAtomicsNativeAndByCompareAndSwap) {
  auto module = kernels(R"(kernel @k(%acc: buf<4xf32, accum>, %m: buf<4xf32, inout>, %old: buf<256xf32, out>,
      %part: buf<4xf32, out>) workgroup(64) grid(4) {
    %i = tgk.global_id 0 : u32
    %l = tgk.local_id 0 : u32
    %w = tgk.workgroup_id 0 : u32
    %f = tgk.cast %i : f32
    %sh = tgk.shared : buf<1xf32, shared>
    %first = tgk.eq %l, 0 : bool
    tgk.if %first {
      tgk.store 0.0, %sh[0]
    }
    tgk.barrier
    tgk.atomic_add %f, %acc[%w]
    %o = tgk.atomic_add 0.5, %m[0] : f32
    tgk.store %o, %old[%i]
    %was = tgk.atomic_exchange %f, %m[1] : f32
    tgk.atomic_compare_exchange -0.0, 3.5, %m[2]
    tgk.atomic_compare_exchange 0.0, %f, %m[3]
    tgk.atomic_add %f, %sh[0]
    tgk.barrier
    tgk.if %first {
      %sum = tgk.load %sh[0] : f32
      tgk.store %sum, %part[%w]
    }
  })");
  verified(*module);
  auto onlyAdds =
      kernels(R"(kernel @k(%acc: buf<2xf32, accum>, %old: buf<256xf32, out>) workgroup(64) grid(4) {
    %i = tgk.global_id 0 : u32
    %f = tgk.cast %i : f32
    tgk.atomic_add %f, %acc[0]
    %o = tgk.atomic_add 0.5, %acc[1] : f32
    tgk.store %o, %old[%i]
  })");
  verified(*onlyAdds);
  for (bool native : {false, true}) {
    Target target = deviceTarget();
    target.floatAtomics = target.floatAtomics && native;
    Memory memory{std::vector<std::byte>(16), bytesOf(std::vector<float>{1, 1000, 0, 0}),
                  std::vector<std::byte>(1024), std::vector<std::byte>(16)};
    onDevice(*module, memory, target);
    auto acc = valuesOf<float>(memory[0]), m = valuesOf<float>(memory[1]), part = valuesOf<float>(memory[3]);
    for (int w = 0; w < 4; ++w) {
      EXPECT_EQ(acc[static_cast<size_t>(w)], static_cast<float>(64 * 64 * w + 63 * 32));
      EXPECT_EQ(part[static_cast<size_t>(w)], static_cast<float>(64 * 64 * w + 63 * 32));
    }
    EXPECT_EQ(m[0], 129);
    EXPECT_LT(m[1], 256);
    EXPECT_EQ(m[2], 0) << "-0 and 0 differ in their bits";
    EXPECT_GE(m[3], 0);
    auto old = valuesOf<float>(memory[2]);
    EXPECT_EQ(std::set<float>(old.begin(), old.end()).size(), 256u);

    Memory adds{std::vector<std::byte>(8), std::vector<std::byte>(1024)};
    std::string glsl = onDevice(*onlyAdds, adds, target);
    EXPECT_EQ(glsl.find("atomicCompSwap") == std::string::npos, target.floatAtomics);
    EXPECT_EQ(valuesOf<float>(adds[0]), (std::vector<float>{255 * 128, 128}));
    old = valuesOf<float>(adds[1]);
    EXPECT_EQ(std::set<float>(old.begin(), old.end()).size(), 256u);
  }
}

// The words on the device are those of ir/kernel/exact_sum.h, and so is what they round to.
TEST_F(KernelMemory, ExactSums) {
  auto module =
      kernels(R"(kernel @k(%x: buf<4x256xf32, in>, %acc: buf<4x11xi32, accum>, %t: buf<256x1x11xi32, tape>,
      %back: buf<256xf32, out>, %inside: buf<4xf32, out>) workgroup(64) grid(4) {
    %i = tgk.global_id 0 : u32
    %l = tgk.local_id 0 : u32
    %w = tgk.workgroup_id 0 : u32
    %sh = tgk.shared : buf<2x11xi32, shared>
    %first = tgk.eq %l, 0 : bool
    tgk.if %first {
      tgk.exact_store 0.0, %sh[1]
    }
    tgk.barrier
    tgk.for %k = 0 to(4) {
      %v = tgk.load %x[%k, %i] : f32
      tgk.exact_add %v, %acc[%k]
      %mine = tgk.eq %k, 1 : bool
      tgk.if %mine {
        tgk.exact_add %v, %sh[1]
      }
    }
    tgk.barrier
    tgk.if %first {
      %s = tgk.exact_load %sh[1] : f32
      tgk.store %s, %inside[%w]
    }
    %one = tgk.load %x[0, %i] : f32
    tgk.exact_store %one, %t[%i, 0]
    %again = tgk.exact_load %t[%i, 0] : f32
    tgk.store %again, %back[%i]
  })");
  verified(*module);
  std::mt19937 random(7);
  std::vector<float> x;
  for (int k = 0; k < 4; ++k)
    for (int i = 0; i < 256; ++i) {
      auto bits = static_cast<uint32_t>(random());
      if (k < 2 && (bits >> 23 & 0xff) == 0xff) bits &= 0xff7fffff;               // no inf or NaN
      if (k == 1) bits = (bits & 0x807fffff) | ((bits >> 23 & 0xff) % 24) << 23;  // about the subnormals
      if (k == 2 && i == 9) bits = 0xff800000;                                    // one -inf
      if (k == 3 && i % 2) bits = std::bit_cast<uint32_t>(-x.back());             // cancels
      if (k >= 2 && (bits >> 23 & 0xff) == 0xff && !(k == 2 && i == 9)) bits &= 0xff7fffff;
      x.push_back(std::bit_cast<float>(bits));
    }
  Memory memory{bytesOf(x), std::vector<std::byte>(4 * 11 * 4), std::vector<std::byte>(256 * 11 * 4),
                std::vector<std::byte>(1024), std::vector<std::byte>(16)};
  onDevice(*module, memory);
  auto words = valuesOf<uint32_t>(memory[1]);
  auto back = valuesOf<float>(memory[3]), inside = valuesOf<float>(memory[4]);
  for (size_t k = 0; k < 4; ++k) {
    uint32_t want[exact_sum::kWords] = {};
    for (size_t i = 0; i < 256; ++i) exact_sum::add(want, x[k * 256 + i]);
    for (size_t word = 0; word < 11; ++word) EXPECT_EQ(words[k * 11 + word], want[word]) << k << " " << word;
    uint32_t group[exact_sum::kWords] = {};
    for (size_t i = 0; i < 64; ++i) exact_sum::add(group, x[256 + k * 64 + i]);
    EXPECT_EQ(std::bit_cast<uint32_t>(inside[k]), std::bit_cast<uint32_t>(exact_sum::load(group))) << k;
  }
  for (size_t i = 0; i < 256; ++i)
    EXPECT_EQ(std::bit_cast<uint32_t>(back[i]), std::bit_cast<uint32_t>(x[i] == 0 ? 0 : x[i]));
}

// What exact_load makes of words of every kind, ties and carries among them.
TEST_F(KernelMemory, ExactSumsRoundAsTheReferenceDoes) {
  auto module = kernels(R"(kernel @k(%w: buf<512x11xi32, in>, %o: buf<512xf32, out>) workgroup(64) grid(8) {
    %i = tgk.global_id 0 : u32
    %v = tgk.exact_load %w[%i] : f32
    tgk.store %v, %o[%i]
  })");
  verified(*module);
  std::mt19937 random(11);
  std::vector<uint32_t> words;
  for (int n = 0; n < 512; ++n) {
    uint32_t sum[exact_sum::kWords] = {};
    for (int at = 0; at <= n % 10; ++at)
      sum[at] = random() % 3 ? static_cast<uint32_t>(random()) : random() % 2 ? ~0u : 0u;
    if (n % 4 == 1) {  // a tie at random height, and next to it
      std::fill(sum, sum + 10, 0u);
      sum[n % 7] = 1u << n % 32;
      exact_sum::add(sum, std::ldexp(static_cast<float>(0x800000 | (random() & 0x7fffff)), n % 200 - 100));
    }
    if (n % 2) {  // negative
      uint32_t carry = 1;
      for (int at = 0; at < 10; ++at) sum[at] = ~sum[at] + carry, carry = carry && !sum[at];
    }
    if (n % 16 == 3) sum[10] = static_cast<uint32_t>(n / 16 % 8);
    words.insert(words.end(), sum, sum + 11);
  }
  Memory memory{bytesOf(words), std::vector<std::byte>(2048)};
  onDevice(*module, memory);
  auto got = valuesOf<uint32_t>(memory[1]);
  for (size_t n = 0; n < 512; ++n)
    EXPECT_EQ(got[n], std::bit_cast<uint32_t>(exact_sum::load(&words[n * 11]))) << n;
}

class NarrowMemory : public KernelMemory {
 protected:
  void convertAll(DType dtype, int lanes, const Target& target);
};

// All 65536 patterns of a narrow real, and floats at, near and between them; in 16 bits, or two to a word.
void NarrowMemory::convertAll(DType dtype, int lanes, const Target& target) {
  std::vector<uint16_t> narrow(65536);
  for (size_t i = 0; i < narrow.size(); ++i) narrow[i] = static_cast<uint16_t>(i);
  std::vector<float> floats(65536);
  for (size_t i = 0; i < floats.size(); ++i) {
    const double low = narrowValue(dtype, narrow[i]), high = narrowValue(dtype, static_cast<uint16_t>(i + 1));
    const auto middle = static_cast<float>((low + high) / 2);
    floats[i] = i % 3 == 0   ? middle
                : i % 3 == 1 ? std::nextafter(middle, kInf)
                             : std::nextafter(middle, -kInf);
    if (std::fabs(floats[i]) < 0x1p-126f) floats[i] = 0;  // a device may flush it
  }
  const std::string type = lanes == 1 ? "f32" : fmt::format("vec{}<f32>", lanes);
  auto module = kernels(fmt::format(
      R"(kernel @k(%h: buf<{0}, in>, %x: buf<{1}, in>, %v: buf<{1}, out>, %r: buf<{0}, out>)
      workgroup(64) grid({2}) {{
    %i = tgk.global_id 0 : u32
    %a = tgk.load %h[%i] : {3}
    tgk.store %a, %v[%i]
    %b = tgk.load %x[%i] : {3}
    tgk.store %b, %r[%i]
  }})",
      elements(65536, std::string(name(dtype)), lanes), elements(65536, "f32", lanes), 1024 / lanes, type));
  verified(*module);
  Memory memory{std::vector<std::byte>(131072), bytesOf(floats), std::vector<std::byte>(262144),
                std::vector<std::byte>(131072)};
  std::memcpy(memory[0].data(), narrow.data(), 131072);
  onDevice(*module, memory, target);
  auto values = valuesOf<float>(memory[2]);
  auto rounded = valuesOf<uint16_t>(memory[3]);
  const uint16_t infinity = narrowBits(dtype, kInf);
  int wrong = 0;
  for (size_t i = 0; i < 65536; ++i) {
    const auto want = static_cast<float>(narrowValue(dtype, narrow[i]));
    bool same = std::isnan(want) ? std::isnan(values[i])
                                 : std::bit_cast<uint32_t>(values[i]) == std::bit_cast<uint32_t>(want);
    bool nan = std::isnan(floats[i]) && (rounded[i] & 0x7fff) > infinity;
    if ((same && (nan || rounded[i] == narrowBits(dtype, floats[i]))) || ++wrong > 5) continue;
    ADD_FAILURE() << i << ": " << values[i] << " " << want << ", " << floats[i] << " -> " << rounded[i] << " "
                  << narrowBits(dtype, floats[i]);
  }
  EXPECT_EQ(wrong, 0) << name(dtype) << " of " << lanes << " lanes, half_storage " << target.halfStorage;
}
TEST_F(NarrowMemory, NarrowRealsConvertAndRound) {
  for (bool stored : {true, false}) {
    Target target = deviceTarget();
    if (stored && !target.halfStorage) continue;
    target.halfStorage = stored;
    for (DType dtype : {DType::f16, DType::bf16})
      for (int lanes : {1, 2, 4}) convertAll(dtype, lanes, target);
  }
}

// Who stands in which subgroup is the device's matter: the kernel says, and the test adds up.
TEST_F(KernelMemory, Subgroups) {
  if (!deviceTarget().subgroups) GTEST_SKIP() << "the device has no subgroup operations";
  auto module = kernels(R"(kernel @k(%x: buf<128xf32, in>, %who: buf<3x128xu32, out>, %u: buf<8x128xu32, out>,
      %f: buf<4x128xf32, out>, %b: buf<128xvec4<u32>, out>) workgroup(64) grid(2) {
    %i = tgk.global_id 0 : u32
    %size = tgk.subgroup_size : u32
    %id = tgk.subgroup_id : u32
    %lane = tgk.subgroup_lane : u32
    tgk.store %size, %who[0, %i]
    tgk.store %id, %who[1, %i]
    tgk.store %lane, %who[2, %i]
    %v = tgk.load %x[%i] : f32
    %odd = tgk.or %i, 1 : u32
    %s = tgk.subgroup_reduce %i : u32
    %m = tgk.subgroup_reduce %odd {kind = mul} : u32
    %lo = tgk.subgroup_reduce %i {kind = min} : u32
    %hi = tgk.subgroup_reduce %i {kind = max} : u32
    %an = tgk.subgroup_reduce %i {kind = and} : u32
    %or = tgk.subgroup_reduce %i {kind = or} : u32
    %xo = tgk.subgroup_reduce %i {kind = xor} : u32
    %other = tgk.xor %lane, 1 : u32
    %sh = tgk.subgroup_shuffle %i, %other : u32
    tgk.store %s, %u[0, %i]
    tgk.store %m, %u[1, %i]
    tgk.store %lo, %u[2, %i]
    tgk.store %hi, %u[3, %i]
    tgk.store %an, %u[4, %i]
    tgk.store %or, %u[5, %i]
    tgk.store %xo, %u[6, %i]
    tgk.store %sh, %u[7, %i]
    %fs = tgk.subgroup_reduce %v : f32
    %fl = tgk.subgroup_reduce %v {kind = min} : f32
    %fh = tgk.subgroup_reduce %v {kind = max} : f32
    %f0 = tgk.subgroup_shuffle %v, 0 : f32
    tgk.store %fs, %f[0, %i]
    tgk.store %fl, %f[1, %i]
    tgk.store %fh, %f[2, %i]
    tgk.store %f0, %f[3, %i]
    %third = tgk.mod %i, 3 : u32
    %c = tgk.eq %third, 0 : bool
    %bits = tgk.subgroup_ballot %c : vec4<u32>
    tgk.store %bits, %b[%i]
  })");
  verified(*module);
  std::vector<float> x(128);
  for (size_t i = 0; i < 128; ++i) x[i] = i == 70 ? std::nanf("") : static_cast<float>(i * 29 % 128) - 60;
  Memory memory{bytesOf(x), std::vector<std::byte>(3 * 512), std::vector<std::byte>(8 * 512),
                std::vector<std::byte>(4 * 512), std::vector<std::byte>(2048)};
  onDevice(*module, memory);
  auto who = valuesOf<uint32_t>(memory[1]), u = valuesOf<uint32_t>(memory[2]),
       b = valuesOf<uint32_t>(memory[4]);
  auto f = valuesOf<float>(memory[3]);
  std::map<std::pair<uint32_t, uint32_t>, std::map<uint32_t, uint32_t>> groups;  // lane: invocation
  for (uint32_t i = 0; i < 128; ++i) {
    EXPECT_EQ(who[i], who[0]);
    EXPECT_TRUE((groups[{i / 64, who[128 + i]}].emplace(who[256 + i], i).second));
  }
  for (const auto& [key, lanes] : groups) {
    uint32_t want[7] = {0, 1, ~0u, 0, ~0u, 0, 0}, ballot[4] = {};
    float sum = 0, least = kInf, most = -kInf;
    for (const auto& [lane, i] : lanes) {
      EXPECT_LT(lane, who[0]);
      want[0] += i, want[1] *= i | 1, want[2] = std::min(want[2], i), want[3] = std::max(want[3], i);
      want[4] &= i, want[5] |= i, want[6] ^= i;
      sum += x[i], least = std::min(least, x[i]), most = std::max(most, x[i]);
      if (i % 3 == 0) ballot[lane / 32] |= 1u << lane % 32;
    }
    for (const auto& [lane, i] : lanes) {
      for (size_t k = 0; k < 7; ++k) EXPECT_EQ(u[k * 128 + i], want[k]) << k << " of " << i;
      EXPECT_EQ(u[7 * 128 + i], lanes.at(lane ^ 1));
      for (size_t word = 0; word < 4; ++word) EXPECT_EQ(b[4 * i + word], ballot[word]);
      float first = x[lanes.at(0)];
      EXPECT_EQ(std::bit_cast<uint32_t>(f[3 * 128 + i]), std::bit_cast<uint32_t>(first));
      const float expected[] = {sum, least, most};
      for (size_t k = 0; k < 3; ++k)
        EXPECT_TRUE(std::isnan(sum) ? std::isnan(f[k * 128 + i]) : f[k * 128 + i] == expected[k])
            << k << " of " << i;
    }
  }
}

// Workgroup reductions of every kind, plain accumulation, local memory, and buffers passed on over a barrier.
TEST_F(KernelMemory, CooperationAsTheInterpreterHasIt) {
  auto module = kernels(R"(kernel @k(%x: buf<96xf32, in>, %n: buf<96xi32, in>, %f: buf<4x96xf32, out>,
      %i: buf<7x96xi32, out>, %io: buf<96xf32, inout>, %acc: buf<96xf32, accum>, %tp: buf<96xu32, tape>,
      %t2: buf<96xu32, out>) workgroup(48) grid(2) {
    %g = tgk.global_id 0 : u32
    %l = tgk.local_id 0 : u32
    %w = tgk.workgroup_id 0 : u32
    %v = tgk.load %x[%g] : f32
    %k = tgk.load %n[%g] : i32
    %f0 = tgk.workgroup_reduce %v : f32
    %f1 = tgk.workgroup_reduce %v {kind = min} : f32
    %f2 = tgk.workgroup_reduce %v {kind = max} : f32
    %small = tgk.mul %v, 0.03125 : f32
    %near = tgk.add %small, 1.0 : f32
    %f3 = tgk.workgroup_reduce %near {kind = mul} : f32
    tgk.store %f0, %f[0, %g]
    tgk.store %f1, %f[1, %g]
    tgk.store %f2, %f[2, %g]
    tgk.store %f3, %f[3, %g]
    %i0 = tgk.workgroup_reduce %k : i32
    %i1 = tgk.workgroup_reduce %k {kind = mul} : i32
    %i2 = tgk.workgroup_reduce %k {kind = min} : i32
    %i3 = tgk.workgroup_reduce %k {kind = max} : i32
    %i4 = tgk.workgroup_reduce %k {kind = and} : i32
    %i5 = tgk.workgroup_reduce %k {kind = or} : i32
    %i6 = tgk.workgroup_reduce %k {kind = xor} : i32
    tgk.store %i0, %i[0, %g]
    tgk.store %i1, %i[1, %g]
    tgk.store %i2, %i[2, %g]
    tgk.store %i3, %i[3, %g]
    tgk.store %i4, %i[4, %g]
    tgk.store %i5, %i[5, %g]
    tgk.store %i6, %i[6, %g]
    tgk.accumulate %v, %acc[%g]
    tgk.accumulate 0.5, %acc[%g]
    %lo = tgk.local : buf<3xf32, local>
    tgk.store %v, %lo[1]
    tgk.accumulate %v, %lo[1]
    %twice = tgk.load %lo[1] : f32
    tgk.store %twice, %io[%g]
    tgk.store %g, %tp[%g]
    tgk.barrier
    %down = tgk.sub 47, %l : u32
    %base = tgk.mul %w, 48 : u32
    %across = tgk.add %base, %down : u32
    %theirs = tgk.load %io[%across] : f32
    %u = tgk.load %tp[%across] : u32
    tgk.store %u, %t2[%g]
    tgk.barrier
    tgk.store %theirs, %io[%g]
  })");
  const Item& kernel = verified(*module);
  std::mt19937 random(5);
  std::vector<float> x(96);
  std::vector<int32_t> n(96);
  for (size_t i = 0; i < 96; ++i)
    x[i] = static_cast<float>(random() % 1000) / 7 - 70, n[i] = static_cast<int32_t>(random());
  Memory memory{bytesOf(x),
                bytesOf(n),
                std::vector<std::byte>(4 * 384),
                std::vector<std::byte>(7 * 384),
                bytesOf(x),
                std::vector<std::byte>(384),
                std::vector<std::byte>(384),
                std::vector<std::byte>(384)};
  Memory expected = memory;
  KernelCounters counters = run(kernel, expected);
  EXPECT_TRUE(counters.findings.empty()) << counters.findings.front();
  onDevice(*module, memory);
  for (size_t buffer = 2; buffer < memory.size(); ++buffer)
    EXPECT_EQ(memory[buffer], expected[buffer]) << buffer;
}

}  // namespace
}  // namespace tg::test
