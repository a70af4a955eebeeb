// SPDX-License-Identifier: Apache-2.0
// Random ops: the words they draw, their distributions, what a key, a salt and an index change.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "ir/philox.h"
#include "test/unit/interp_test_support.h"

namespace tg::test {
namespace {

using Doubles = std::vector<double>;

NdArray key(int32_t seed, int32_t step) {
  return i32({2}, {static_cast<double>(seed), static_cast<double>(step)});
}

/// `count` values of a random op with these attributes.
Doubles draw(const std::string& op, const std::string& attrs, int64_t count, const NdArray& rng) {
  const std::string type = "tensor<" + std::to_string(count) + "xf32>";
  return evaluate("%r = tg." + op + " %rng {" + attrs + "} : " + type, type, {{"rng", rng}}).data;
}

double meanOf(const Doubles& x) {
  return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
}
double varianceOf(const Doubles& x) {
  const double mean = meanOf(x);
  double sum = 0;
  for (double value : x) sum += (value - mean) * (value - mean);
  return sum / static_cast<double>(x.size() - 1);
}
/// The largest distance between the empirical distribution and `cdf`, times √n (Kolmogorov-Smirnov).
double kolmogorov(Doubles x, double (*cdf)(double)) {
  std::sort(x.begin(), x.end());
  const auto n = static_cast<double>(x.size());
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double at = cdf(x[i]);
    worst = std::max({worst, at - static_cast<double>(i) / n, static_cast<double>(i + 1) / n - at});
  }
  return worst * std::sqrt(n);
}
double normalCdf(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }
double correlation(const Doubles& x, const Doubles& y, size_t lag = 0) {
  const double mx = meanOf(x), my = meanOf(y);
  double sum = 0;
  for (size_t i = 0; i + lag < x.size(); ++i) sum += (x[i] - mx) * (y[i + lag] - my);
  return sum / static_cast<double>(x.size() - lag) / std::sqrt(varianceOf(x) * varianceOf(y));
}

constexpr int64_t kMany = 40000;
// Bounds of five standard deviations: a right generator fails one in 10^6, and with its fixed key never.
const double kRoot = std::sqrt(static_cast<double>(kMany));

// The published vectors of Random123 for counter 0: with salt 0 and key 0 the first quad is that counter.
TEST(Random, UniformHasThePublishedBits) {
  const uint32_t zeros[] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  const Doubles got = draw("random_uniform", "salt = 0", 6, key(0, 0));
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(got[i], std::ldexp(zeros[i] >> 8, -24)) << i;
}

TEST(Random, CounterAndKeyAreAsDocumented) {
  const auto words = philox({2, 0, 0xdeadbeef, 0}, {0x12345678, 0xfffffffe});
  const NdArray rng = key(0x12345678, -2);
  const Doubles u = draw("random_uniform", "salt = 3735928559", 11, rng);
  const Doubles z = draw("random_normal", "salt = 3735928559", 11, rng);
  for (size_t i = 8; i < 11; ++i) {
    EXPECT_EQ(u[i], std::ldexp(words[i - 8] >> 8, -24));
    const size_t pair = (i - 8) / 2 * 2;
    const double radius = std::sqrt(-2 * std::log(std::ldexp((words[pair] >> 8) + 1.0, -24)));
    const double angle = 2 * std::numbers::pi * std::ldexp(words[pair + 1] >> 8, -24);
    EXPECT_NEAR(z[i], radius * (i % 2 ? std::sin(angle) : std::cos(angle)), 1e-14);
  }
}

TEST(Random, UniformIsUniform) {
  const Doubles u = draw("random_uniform", "salt = 1", kMany, key(42, 0));
  EXPECT_NEAR(meanOf(u), 0.5, 5 * std::sqrt(1.0 / 12) / kRoot);
  EXPECT_NEAR(varianceOf(u), 1.0 / 12, 5 * std::sqrt(1.0 / 180) / kRoot);
  EXPECT_LT(kolmogorov(u, [](double x) { return x; }), 2.0);  // 1.95 is passed once in 1000
  EXPECT_GE(*std::min_element(u.begin(), u.end()), 0);
  EXPECT_LT(*std::max_element(u.begin(), u.end()), 1);
  // Chi-square over 64 cells: mean 63, deviation √126.
  std::array<double, 64> cells{};
  for (double value : u) cells[static_cast<size_t>(value * 64)] += 1;
  double chi = 0;
  for (double count : cells) chi += (count - kMany / 64.0) * (count - kMany / 64.0) / (kMany / 64.0);
  EXPECT_NEAR(chi, 63, 5 * std::sqrt(126));
  for (size_t lag = 1; lag <= 9; ++lag) EXPECT_NEAR(correlation(u, u, lag), 0, 5 / kRoot) << lag;
}

TEST(Random, NormalIsNormal) {
  const Doubles z = draw("random_normal", "salt = 1", kMany, key(42, 0));
  EXPECT_NEAR(meanOf(z), 0, 5 / kRoot);
  EXPECT_NEAR(varianceOf(z), 1, 5 * std::sqrt(2.0) / kRoot);
  EXPECT_LT(kolmogorov(z, normalCdf), 2.0);
  double third = 0, fourth = 0;
  for (double value : z) third += value * value * value, fourth += value * value * value * value;
  EXPECT_NEAR(third / kMany, 0, 5 * std::sqrt(15.0) / kRoot);
  EXPECT_NEAR(fourth / kMany, 3, 5 * std::sqrt(96.0) / kRoot);
  // Lag 1 pairs the cosine and the sine branch, whose radius is shared: their squares too are independent.
  Doubles squares;
  for (double value : z) squares.push_back(value * value);
  for (size_t lag = 1; lag <= 9; ++lag) {
    EXPECT_NEAR(correlation(z, z, lag), 0, 5 / kRoot) << lag;
    EXPECT_NEAR(correlation(squares, squares, lag), 0, 5 / kRoot) << lag;
  }
}

TEST(Random, LowHighMeanStd) {
  const Doubles u = draw("random_uniform", "salt = 5", 100, key(7, 1));
  const Doubles wide = draw("random_uniform", "salt = 5, low = -3.0, high = 7.5", 100, key(7, 1));
  const Doubles z = draw("random_normal", "salt = 5", 100, key(7, 1));
  const Doubles moved = draw("random_normal", "salt = 5, mean = 2.0, std = 0.25", 100, key(7, 1));
  const Doubles flat = draw("random_normal", "salt = 5, mean = 2.0, std = 0.0", 100, key(7, 1));
  for (size_t i = 0; i < u.size(); ++i) {
    EXPECT_EQ(wide[i], static_cast<float>(static_cast<float>(u[i] * 10.5) - 3.0)) << i;
    EXPECT_NEAR(moved[i], 2 + z[i] / 4, 1e-14);
    EXPECT_EQ(flat[i], 2);
  }
}

// Each of seed, step and salt gives another sequence; the same three give the same one, of which a longer
// tensor has more.
TEST(Random, KeyAndSaltChooseTheSequence) {
  const Doubles base = draw("random_uniform", "salt = 1", 1000, key(1, 1));
  const Doubles longer = draw("random_uniform", "salt = 1", 4003, key(1, 1));
  EXPECT_TRUE(std::equal(base.begin(), base.end(), longer.begin()));
  for (const Doubles& other : {draw("random_uniform", "salt = 2", 1000, key(1, 1)),
                               draw("random_uniform", "salt = 1", 1000, key(2, 1)),
                               draw("random_uniform", "salt = 1", 1000, key(1, 2))}) {
    int equal = 0;
    for (size_t i = 0; i < base.size(); ++i) equal += base[i] == other[i];
    EXPECT_LT(equal, 3);
    EXPECT_NEAR(correlation(base, other), 0, 5 / std::sqrt(1000));
  }
}

TEST(Dropout, DropsThatManyAndScalesTheRest) {
  NdArray x = NdArray::filled(Type::tensor(DType::f32, {200, 200}), 3);
  for (double p : {0.1, 0.5, 0.9}) {
    const NdArray y =
        evaluate("%r = tg.dropout %x, %rng {p = " + std::to_string(p) + ", salt = 4} : tensor<200x200xf32>",
                 "tensor<200x200xf32>", {{"rng", key(3, 0)}, {"x", x}});
    int64_t dropped = 0;
    for (double value : y.data) {
      dropped += value == 0;
      EXPECT_NEAR(value, value == 0 ? 0 : 3 / (1 - p), 1e-6 / (1 - p));
    }
    EXPECT_NEAR(static_cast<double>(dropped), kMany * p, 5 * std::sqrt(kMany * p * (1 - p))) << p;
  }
}

TEST(Dropout, OfZeroChangesNothing) {
  const NdArray x = scattered({3, 5});
  const NdArray y = evaluate("%r = tg.dropout %x, %rng {p = 0.0, salt = 4} : tensor<3x5xf32>",
                             "tensor<3x5xf32>", {{"rng", key(3, 0)}, {"x", x}});
  EXPECT_EQ(y.data, x.data);
}

// A dropped infinity is 0, not 0 times infinity.
TEST(Dropout, LeavesNoTraceOfWhatItDrops) {
  const NdArray x = NdArray::filled(Type::tensor(DType::f32, {64}), std::numeric_limits<double>::infinity());
  const NdArray y = evaluate("%r = tg.dropout %x, %rng {p = 0.5, salt = 4} : tensor<64xf32>",
                             "tensor<64xf32>", {{"rng", key(3, 0)}, {"x", x}});
  const auto zeros = std::count(y.data.begin(), y.data.end(), 0.0);
  EXPECT_GT(zeros, 10);
  EXPECT_EQ(zeros + std::count(y.data.begin(), y.data.end(), x.data[0]), 64);
}

TEST(Categorical, FrequenciesFollowTheSoftmax) {
  const Doubles logits = {0.3, -1.2, 2.0, 0.0, -40.0, 1.1};
  const int64_t rows = 20000;
  NdArray x = NdArray::zeros(Type::tensor(DType::f32, {rows, 6}));
  for (size_t i = 0; i < x.data.size(); ++i) x.data[i] = logits[i % 6];
  const NdArray classes = evaluate("%r = tg.categorical %x, %rng {salt = 9} : tensor<20000xi32>",
                                   "tensor<20000xi32>", {{"rng", key(11, 0)}, {"x", x}});
  double total = 0;
  for (double logit : logits) total += std::exp(logit);
  for (size_t c = 0; c < logits.size(); ++c) {
    const double p = std::exp(logits[c]) / total;
    const auto hits = std::count(classes.data.begin(), classes.data.end(), static_cast<double>(c));
    EXPECT_NEAR(static_cast<double>(hits), static_cast<double>(rows) * p,
                5 * std::sqrt(static_cast<double>(rows) * p * (1 - p)) + 1e-6)
        << c;
  }
}

// Along another axis the noise still belongs to the element's place in the logits.
TEST(Categorical, AlongAnotherAxis) {
  const NdArray x = scattered({5, 3});
  const NdArray u = evaluate("%r = tg.random_uniform %rng {salt = 9} : tensor<5x3xf32>", "tensor<5x3xf32>",
                             {{"rng", key(11, 4)}});
  const NdArray got = evaluate("%r = tg.categorical %x, %rng {axis = 0, salt = 9} : tensor<3xi32>",
                               "tensor<3xi32>", {{"rng", key(11, 4)}, {"x", x}});
  for (size_t column = 0; column < 3; ++column) {
    size_t best = 0;
    double most = -1e9;
    for (size_t row = 0; row < 5; ++row) {
      const size_t at = row * 3 + column;
      const double noisy = x.data[at] - std::log(-std::log(u.data[at]));
      if (noisy > most) most = noisy, best = row;
    }
    EXPECT_EQ(got.data[column], static_cast<double>(best)) << column;
  }
}

}  // namespace
}  // namespace tg::test
