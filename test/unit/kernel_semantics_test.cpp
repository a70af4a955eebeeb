// SPDX-License-Identifier: Apache-2.0
// The table of kernel ops' meanings against formulas of its own, on edge values and random words of every
// type.
#include "ir/kernel/semantics.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <random>

#include "ir/kernel/index_forms.h"

namespace tg::test {
namespace {

constexpr DType kTypes[] = {DType::f32, DType::i32, DType::u32, DType::i1};
constexpr uint32_t kEdges[] = {
    0,          1,          2,          3,          7,          31,         32,         33,
    64,         0x7fffffff, 0x80000000, 0x80000001, 0xfffffffe, 0xffffffff, 0x10000,    0x3f800000,
    0xbf800000, 0x3f000000, 0x3fc00000, 0x40200000, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc00001,
    0x00800000, 0x007fffff, 0x4f000000, 0xcf000000, 0x4f800000, 0x477fe000, 0x477ff000, 0x33000000};

/// The ops of lanes, in the table's order.
std::vector<Opcode> laneOps() {
  std::vector<Opcode> out;
  for (int code = kFirstKernelOp; code < kOpcodeCount; ++code)
    if (semantics(static_cast<Opcode>(code)).isLaneWise()) out.push_back(static_cast<Opcode>(code));
  return out;
}

uint32_t anyWord(std::mt19937_64& random, DType dtype) {
  const auto word = static_cast<uint32_t>(random() % 3 ? kEdges[random() % std::size(kEdges)] : random());
  return dtype == DType::i1 ? word & 1 : word;
}

int64_t numberOf(uint32_t word, DType dtype) {
  return dtype == DType::i32 ? int64_t{static_cast<int32_t>(word)} : int64_t{word};
}

using Wide = long double;
/// x, y and z exact; the result is rounded to f32, or a truth value.
using OfFloats = std::function<Wide(Wide, Wide, Wide)>;
/// x and y exact, and the type; the result counts mod 2^32.
using OfIntegers = std::function<int64_t(int64_t, int64_t, DType)>;

Wide either(Wide x, Wide y, Wide chosen) { return std::isnan(x) ? x : std::isnan(y) ? y : chosen; }

const std::map<Opcode, OfFloats>& floatFormulas() {
  using W = Wide;
  static const std::map<Opcode, OfFloats> kFormulas{
      {Opcode::k_add, [](W x, W y, W) { return x + y; }},
      {Opcode::k_sub, [](W x, W y, W) { return x - y; }},
      {Opcode::k_mul, [](W x, W y, W) { return x * y; }},
      {Opcode::k_div, [](W x, W y, W) { return x / y; }},
      {Opcode::k_fma, [](W x, W y, W z) { return x * y + z; }},
      {Opcode::k_min, [](W x, W y, W) { return either(x, y, x < y ? x : y); }},
      {Opcode::k_max, [](W x, W y, W) { return either(x, y, x < y ? y : x); }},
      {Opcode::k_neg, [](W x, W, W) { return -x; }},
      {Opcode::k_abs, [](W x, W, W) { return x < 0    ? -x
                                             : x == 0 ? W{0}
                                                      : x; }},
      {Opcode::k_sign, [](W x, W, W) { return x > 0   ? W{1}
                                              : x < 0 ? W{-1}
                                                      : W{0}; }},
      {Opcode::k_floor, [](W x, W, W) { return floorl(x); }},
      {Opcode::k_ceil, [](W x, W, W) { return ceill(x); }},
      {Opcode::k_trunc, [](W x, W, W) { return truncl(x); }},
      {Opcode::k_round, [](W x, W, W) { return std::isfinite(x) ? copysignl(x - remainderl(x, 1), x) : x; }},
      {Opcode::k_sqrt, [](W x, W, W) { return sqrtl(x); }},
      {Opcode::k_reciprocal, [](W x, W, W) { return 1 / x; }},
      {Opcode::k_stop_gradient, [](W x, W, W) { return x; }},
      {Opcode::k_isnan, [](W x, W, W) { return W(x != x); }},
      {Opcode::k_isinf, [](W x, W, W) { return W(x == x && x - x != 0); }},
      {Opcode::k_isfinite, [](W x, W, W) { return W(x - x == 0); }},
      {Opcode::k_lt, [](W x, W y, W) { return W(x < y); }},
      {Opcode::k_le, [](W x, W y, W) { return W(x < y || x == y); }},
      {Opcode::k_gt, [](W x, W y, W) { return W(y < x); }},
      {Opcode::k_ge, [](W x, W y, W) { return W(y < x || x == y); }},
      {Opcode::k_eq, [](W x, W y, W) { return W(x - y == 0 || (x == y)); }},
      {Opcode::k_ne, [](W x, W y, W) { return W(!(x == y)); }},
  };
  return kFormulas;
}

int64_t bitsSet(int64_t x, int first, int step) {
  int64_t count = 0;
  for (int bit = first; bit >= 0 && bit < 32 && !(x >> bit & 1); bit += step) ++count;
  return count;
}

const std::map<Opcode, OfIntegers>& integerFormulas() {
  using N = int64_t;
  constexpr N kMost = UINT32_MAX;
  auto rotated = [](N x, N count) {
    N out = 0;
    for (N bit = 0; bit < 32; ++bit) out |= (x >> bit & 1) << ((bit + count) % 32);
    return out;
  };
  auto product = [](N x, N y) {
    return static_cast<unsigned __int128>(static_cast<uint64_t>(x)) * static_cast<uint64_t>(y);
  };
  static const std::map<Opcode, OfIntegers> kFormulas{
      {Opcode::k_add, [](N x, N y, DType) { return x + y; }},
      {Opcode::k_sub, [](N x, N y, DType) { return x - y; }},
      {Opcode::k_mul,
       [](N x, N y, DType) { return static_cast<N>(static_cast<uint64_t>(x) * static_cast<uint64_t>(y)); }},
      {Opcode::k_div, [](N x, N y, DType t) { return y                 ? x / y
                                                     : t == DType::u32 ? kMost
                                                                       : 0; }},
      {Opcode::k_mod, [](N x, N y, DType) { return y ? x - x / y * y : 0; }},
      {Opcode::k_mulhi, [product](N x, N y, DType) { return static_cast<N>(product(x, y) >> 32); }},
      {Opcode::k_min, [](N x, N y, DType) { return x < y ? x : y; }},
      {Opcode::k_max, [](N x, N y, DType) { return x < y ? y : x; }},
      {Opcode::k_neg, [](N x, N, DType) { return -x; }},
      {Opcode::k_abs, [](N x, N, DType) { return x < 0 ? -x : x; }},
      {Opcode::k_sign, [](N x, N, DType) { return N{x > 0} - N{x < 0}; }},
      {Opcode::k_stop_gradient, [](N x, N, DType) { return x; }},
      {Opcode::k_and, [](N x, N y, DType) { return x + y - (x | y); }},
      {Opcode::k_or, [](N x, N y, DType) { return x + y - (x & y); }},
      {Opcode::k_xor, [](N x, N y, DType) { return (x | y) - (x & y); }},
      {Opcode::k_not, [](N x, N, DType t) { return t == DType::i1 ? 1 - x : -x - 1; }},
      {Opcode::k_shl, [](N x, N y, DType) { return x * (N{1} << (y & 31)); }},
      {Opcode::k_shr,
       [](N x, N y, DType) { return static_cast<N>(floorl(static_cast<Wide>(x) / (N{1} << (y & 31)))); }},
      {Opcode::k_popcount,
       [](N x, N, DType) {
         N count = 0;
         for (int bit = 0; bit < 32; ++bit) count += x >> bit & 1;
         return count;
       }},
      {Opcode::k_clz, [](N x, N, DType) { return bitsSet(x, 31, -1); }},
      {Opcode::k_ctz, [](N x, N, DType) { return bitsSet(x, 0, 1); }},
      {Opcode::k_reverse_bits,
       [](N x, N, DType) {
         N out = 0;
         for (int bit = 0; bit < 32; ++bit) out = out * 2 + (x >> bit & 1);
         return out;
       }},
      {Opcode::k_rotl, [rotated](N x, N y, DType) { return rotated(x, y % 32); }},
      {Opcode::k_rotr, [rotated](N x, N y, DType) { return rotated(x, 32 - y % 32); }},
      {Opcode::k_add_sat, [](N x, N y, DType) { return x + y < kMost ? x + y : kMost; }},
      {Opcode::k_sub_sat, [](N x, N y, DType) { return x - y > 0 ? x - y : 0; }},
      {Opcode::k_mul_sat,
       [product](N x, N y, DType) {
         const auto all = product(x, y);
         return all < static_cast<unsigned __int128>(kMost) ? static_cast<N>(all) : kMost;
       }},
      {Opcode::k_abs_diff, [](N x, N y, DType) { return x - y < 0 ? y - x : x - y; }},
      {Opcode::k_lt, [](N x, N y, DType) { return N{x - y < 0}; }},
      {Opcode::k_le, [](N x, N y, DType) { return N{x - y <= 0}; }},
      {Opcode::k_gt, [](N x, N y, DType) { return N{x - y > 0}; }},
      {Opcode::k_ge, [](N x, N y, DType) { return N{x - y >= 0}; }},
      {Opcode::k_eq, [](N x, N y, DType) { return N{x - y == 0}; }},
      {Opcode::k_ne, [](N x, N y, DType) { return N{x - y != 0}; }},
  };
  return kFormulas;
}

/// Whether two words are one f32, NaN with another NaN and, of `min` and `max`, 0 with -0; `ulps` apart where
/// the formula is rounded twice.
bool sameFloat(uint32_t a, uint32_t b, uint32_t ulps, bool zeros) {
  const float x = std::bit_cast<float>(a), y = std::bit_cast<float>(b);
  return a == b || (std::isnan(x) && std::isnan(y)) || (zeros && x == 0 && y == 0) ||
         (a > b ? a - b : b - a) <= ulps;
}

TEST(KernelSemantics, ValuesAreTheFormulas) {
  std::mt19937_64 random(1);
  int formulas = 0;
  for (Opcode code : laneOps()) {
    const KernelSemantics& row = semantics(code);
    for (DType dtype : kTypes) {
      if (!takes(row.types, dtype) || row.has(KernelSemantics::approximate) || code == Opcode::k_round_f16 ||
          code == Opcode::k_round_bf16 || row.gives == LaneGives::word || row.gives == LaneGives::real)
        continue;
      const bool real = isFloat(dtype), condition = row.givesCondition();
      if (!(real ? floatFormulas().contains(code) : integerFormulas().contains(code))) {
        ADD_FAILURE() << info(code).name << " of " << name(dtype) << " has no formula here";
        continue;
      }
      ++formulas;
      for (int round = 0; round < 3000; ++round) {
        const uint32_t in[] = {anyWord(random, dtype), anyWord(random, dtype), anyWord(random, dtype)};
        const auto got = kernelWord(code, dtype, condition ? DType::i1 : dtype, in);
        ASSERT_TRUE(got) << info(code).name;
        if (!real) {
          const int64_t want =
              integerFormulas().at(code)(numberOf(in[0], dtype), numberOf(in[1], dtype), dtype);
          ASSERT_EQ(*got, static_cast<uint32_t>(want)) << info(code).name << " " << in[0] << " " << in[1];
          continue;
        }
        auto number = [&](int index) { return static_cast<Wide>(std::bit_cast<float>(in[index])); };
        const Wide want = floatFormulas().at(code)(number(0), number(1), number(2));
        const auto word =
            condition ? static_cast<uint32_t>(want) : std::bit_cast<uint32_t>(static_cast<float>(want));
        ASSERT_TRUE(condition ? *got == word
                              : sameFloat(*got, word, code == Opcode::k_fma,
                                          code == Opcode::k_min || code == Opcode::k_max))
            << info(code).name << " " << number(0) << " " << number(1) << " " << number(2) << ": " << *got
            << " for " << word;
      }
    }
  }
  EXPECT_GT(formulas, 80);
}

TEST(KernelSemantics, ApproximatedFunctionsAreLeftToDevices) {
  const uint32_t one[] = {0x3f800000, 0x3f800000, 0};
  for (Opcode code : laneOps())
    EXPECT_EQ(kernelWord(code, DType::f32, DType::f32, one).has_value(),
              takes(semantics(code).types, DType::f32) && !semantics(code).has(KernelSemantics::approximate))
        << info(code).name;
}

TEST(KernelSemantics, ConversionsClampAndTruncate) {
  auto cast = [](uint32_t word, DType from, DType to) {
    return *kernelWord(Opcode::k_cast, from, to, {&word, 1});
  };
  auto bits = [](float x) { return std::bit_cast<uint32_t>(x); };
  EXPECT_EQ(cast(bits(-2.9f), DType::f32, DType::i32), static_cast<uint32_t>(-2));
  EXPECT_EQ(cast(bits(-2.9f), DType::f32, DType::u32), 0u);
  EXPECT_EQ(cast(bits(1e20f), DType::f32, DType::i32), 0x7fffffffu);
  EXPECT_EQ(cast(bits(1e20f), DType::f32, DType::u32), 0xffffffffu);
  EXPECT_EQ(cast(0x7fc00000, DType::f32, DType::u32), 0u);
  EXPECT_EQ(cast(0x80000000, DType::i32, DType::f32), bits(-2147483648.0f));
  EXPECT_EQ(cast(0x80000000, DType::u32, DType::f32), bits(2147483648.0f));
  EXPECT_EQ(cast(0x80000000, DType::f32, DType::i1), 0u);
  EXPECT_EQ(cast(7, DType::i32, DType::i1), 1u);
  EXPECT_EQ(cast(1, DType::i1, DType::f32), bits(1.0f));
  const uint32_t chosen[] = {0, 5, 9};
  EXPECT_EQ(kernelWord(Opcode::k_select, DType::i32, DType::i32, chosen), 9u);
}

TEST(KernelSemantics, WordsHoldTwoNarrowReals) {
  auto pack = [](Opcode code, float x, float y) {
    const uint32_t in[] = {std::bit_cast<uint32_t>(x), std::bit_cast<uint32_t>(y)};
    return kernelWord(code, DType::f32, DType::u32, in);
  };
  EXPECT_EQ(pack(Opcode::k_pack_f16, 1.0f, -2.0f), 0xc0003c00u);
  EXPECT_EQ(pack(Opcode::k_pack_f16, 1 + 0x1p-11f, 65520.0f), 0x7c003c00u);  // a tie, and too large
  EXPECT_EQ(pack(Opcode::k_pack_bf16, 1.0f, -2.0f), 0xc0003f80u);
  EXPECT_EQ(pack(Opcode::k_pack_bf16, 1 + 3 * 0x1p-8f, 0x1p-133f), 0x00013f82u);
  for (const uint32_t word : {0x1234c000u, 0xffffc000u}) {
    const uint32_t in[] = {word};
    EXPECT_EQ(kernelWord(Opcode::k_unpack_f16, DType::u32, DType::f32, in), std::bit_cast<uint32_t>(-2.0f));
    EXPECT_EQ(kernelWord(Opcode::k_unpack_bf16, DType::u32, DType::f32, in), std::bit_cast<uint32_t>(-2.0f));
  }
}

TEST(KernelSemantics, RangesHoldEveryValue) {
  std::mt19937_64 random(2);
  for (Opcode code : laneOps())
    for (DType dtype : {DType::i32, DType::u32}) {
      if (!takes(semantics(code).types, dtype) || semantics(code).gives != LaneGives::same) continue;
      for (int round = 0; round < 20000; ++round) {
        std::vector<indexing::Interval> ranges;
        uint32_t in[2];
        for (uint32_t& word : in) {
          int64_t ends[] = {numberOf(anyWord(random, dtype), dtype), numberOf(anyWord(random, dtype), dtype)};
          if (ends[0] > ends[1]) std::swap(ends[0], ends[1]);
          const uint64_t values = static_cast<uint64_t>(ends[1] - ends[0]) + 1;
          word = static_cast<uint32_t>(ends[0] + static_cast<int64_t>(random() % 4 ? random() % values : 0));
          ranges.push_back({ends[0], ends[1]});
        }
        const int64_t got = numberOf(*kernelWord(code, dtype, dtype, in), dtype);
        const indexing::Interval range = indexing::Bounds::derived(code, dtype, ranges);
        ASSERT_TRUE(range.lo <= got && got <= range.hi)
            << info(code).name << " " << numberOf(in[0], dtype) << " " << numberOf(in[1], dtype) << ": "
            << got << " outside of " << range.lo << ".." << range.hi;
      }
    }
}

TEST(KernelSemantics, TypesAreThoseOfTheOpTable) {
  for (Opcode code : laneOps())
    for (DType dtype : kTypes)
      for (const table::Slot& slot : info(code).slots)
        EXPECT_TRUE(!takes(semantics(code).types, dtype) || tg::admits(slot.type, dtype)) << info(code).name;
}

}  // namespace
}  // namespace tg::test
