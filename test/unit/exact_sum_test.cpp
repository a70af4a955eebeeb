// SPDX-License-Identifier: Apache-2.0
// Exact sums against integers of 128 bits and against what is known.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "ir/kernel/exact_sum.h"
#include "ir/kernel/kernel.h"

namespace tg::test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kMax = std::numeric_limits<float>::max();
constexpr float kLeast = std::numeric_limits<float>::denorm_min();

static_assert(exact_sum::kWords == kExactWords);

struct Sum {
  uint32_t words[exact_sum::kWords] = {};
  float value() const { return exact_sum::load(words); }
};

Sum sumOf(const std::vector<float>& terms) {
  Sum sum;
  for (float term : terms) exact_sum::add(sum.words, term);
  return sum;
}

bool same(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

TEST(ExactSum, OneTermIsItself) {
  std::mt19937 random(1);
  std::vector<float> values{0, kLeast, -kLeast, 0x1p-126f, 0x1.fffffcp-127f, kMax, -kMax, kInf, -kInf, 1, -1};
  for (int i = 0; i < 100000; ++i) values.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  for (float value : values) {
    Sum sum;
    exact_sum::store(sum.words, value);
    EXPECT_TRUE(same(sum.value(), value == 0 ? 0 : value)) << value;
    EXPECT_TRUE(same(sumOf({value}).value(), value == 0 ? 0 : value)) << value;
  }
  EXPECT_TRUE(same(sumOf({-0.0f, -0.0f}).value(), 0));
}

// Whole multiples of 2^base, their sum kept in 128 bits; the compiler's conversion rounds it.
TEST(ExactSum, MatchesWideIntegers) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 3000; ++round) {
    int base = static_cast<int>(random() % 200) - 149;
    int spread = std::min(static_cast<int>(random() % 80), 104 - base);
    __int128 total = 0;
    std::vector<float> terms;
    for (size_t n = random() % 40 + 1; n > 0; --n) {
      auto mantissa = static_cast<int64_t>(random() % (1 << 24));
      int shift = static_cast<int>(random() % static_cast<uint64_t>(spread + 1));
      if (random() % 2) mantissa = -mantissa;
      if (random() % 4 == 0 && !terms.empty()) {  // take an earlier one back
        float earlier = terms[random() % terms.size()];
        terms.push_back(-earlier);
        total -= static_cast<__int128>(std::ldexp(static_cast<double>(earlier), -base));
        continue;
      }
      total += static_cast<__int128>(mantissa) << shift;
      terms.push_back(std::ldexp(static_cast<float>(mantissa), base + shift));
    }
    float want = std::ldexp(static_cast<float>(total), base);
    EXPECT_TRUE(same(sumOf(terms).value(), want)) << round << ": " << sumOf(terms).value() << " " << want;
  }
}

TEST(ExactSum, OrderDoesNotMatter) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<float> terms;
    for (int i = 0; i < 50; ++i) {
      uint32_t bits = static_cast<uint32_t>(random());
      if ((bits >> 23 & 0xff) == 0xff && round % 2) bits &= 0xff7fffff;
      terms.push_back(std::bit_cast<float>(bits));
    }
    Sum first = sumOf(terms);
    std::shuffle(terms.begin(), terms.end(), random);
    Sum second = sumOf(terms);
    EXPECT_TRUE(std::equal(first.words, first.words + exact_sum::kWords, second.words));
    for (float term : std::vector<float>(terms)) terms.push_back(-term);
    if (round % 2) {
      EXPECT_TRUE(same(sumOf(terms).value(), 0));
    }
  }
}

TEST(ExactSum, Edges) {
  EXPECT_EQ(sumOf({kMax, kLeast, -kMax}).value(), kLeast);
  EXPECT_EQ(sumOf({-kMax, -kLeast, kMax}).value(), -kLeast);
  EXPECT_EQ(sumOf({kMax, kMax}).value(), kInf);  // and comes back
  EXPECT_EQ(sumOf({kMax, kMax, -kMax}).value(), kMax);
  EXPECT_EQ(sumOf({-kMax, -kMax}).value(), -kInf);
  EXPECT_EQ(sumOf({kMax, 0x1p103f}).value(), kInf);  // half of its last place: a tie, to even
  EXPECT_EQ(sumOf({kMax, 0x1p103f, -kLeast}).value(), kMax);
  // Ties and what is next to them.
  EXPECT_EQ(sumOf({1, 0x1p-24f}).value(), 1);
  EXPECT_EQ(sumOf({1, 0x1p-24f, kLeast}).value(), 1 + 0x1p-23f);
  EXPECT_EQ(sumOf({1 + 0x1p-23f, 0x1p-24f}).value(), 1 + 0x1p-22f);
  EXPECT_EQ(sumOf({1 + 0x1p-23f, 0x1p-24f, -kLeast}).value(), 1 + 0x1p-23f);
  EXPECT_EQ(sumOf({-1, -0x1p-24f, -kLeast}).value(), -1 - 0x1p-23f);
  // Between subnormal and normal.
  EXPECT_EQ(sumOf({0x1p-126f, -kLeast}).value(), 0x1.fffffcp-127f);
  EXPECT_EQ(sumOf({0x1.fffffcp-127f, kLeast}).value(), 0x1p-126f);
  // What fixed point has not.
  EXPECT_EQ(sumOf({1, kInf, -kMax}).value(), kInf);
  EXPECT_EQ(sumOf({1, -kInf}).value(), -kInf);
  EXPECT_TRUE(std::isnan(sumOf({kInf, 1, -kInf}).value()));
  EXPECT_TRUE(std::isnan(sumOf({std::nanf(""), kInf}).value()));
  Sum sum = sumOf({kInf});
  exact_sum::store(sum.words, 3);
  EXPECT_EQ(sum.value(), 3);
}

// A million of the largest neither wrap nor lose the smallest.
TEST(ExactSum, RoomForManyTerms) {
  Sum sum;
  exact_sum::add(sum.words, kLeast);
  for (int i = 0; i < 1 << 20; ++i) exact_sum::add(sum.words, kMax);
  EXPECT_EQ(sum.value(), kInf);
  for (int i = 0; i < 1 << 20; ++i) exact_sum::add(sum.words, -kMax);
  EXPECT_EQ(sum.value(), kLeast);
}

static_assert([] {
  uint32_t words[exact_sum::kWords] = {};
  for (float term : {1e8f, 0.25f, -1e8f}) exact_sum::add(words, term);
  return exact_sum::load(words) == 0.25f;
}());

}  // namespace
}  // namespace tg::test
