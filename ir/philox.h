// SPDX-License-Identifier: Apache-2.0
// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11): random bits as a pure function
// of a counter and a key, so that every executor draws the same numbers in any order.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace tg {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

/// Four independent 32-bit words for a counter under a key, after ten rounds.
constexpr std::array<uint32_t, 4> philox(PhiloxCounter counter, PhiloxKey key) {
  constexpr uint64_t kMul0 = 0xD2511F53u, kMul1 = 0xCD9E8D57u;
  constexpr uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = kMul0 * counter[0], product1 = kMul1 * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(product0)};
    key = {key[0] + kWeyl0, key[1] + kWeyl1};
  }
  return counter;
}

/// The low or high half of a 64-bit seed or index, as a word of a key or counter.
constexpr uint32_t lowWord(uint64_t bits) { return static_cast<uint32_t>(bits); }
constexpr uint32_t highWord(uint64_t bits) { return static_cast<uint32_t>(bits >> 32); }

/// A uniform number in [0, 1): a multiple of 2^-24, exact in f32.
constexpr float philoxUniform(uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

/// A standard normal number from two words (Box-Muller, cosine branch), |value| < 5.8. The first uniform number is
/// shifted to (0, 1], so that the logarithm is finite.
inline double philoxNormal(uint32_t word0, uint32_t word1) {
  const double radius = std::sqrt(-2.0 * std::log((static_cast<double>(word0 >> 8) + 1.0) * 0x1p-24));
  return radius * std::cos(2.0 * std::numbers::pi * static_cast<double>(philoxUniform(word1)));
}

/// The words of a random op: element i of the result uses those of quad i/4.
constexpr std::array<uint32_t, 4> philoxQuad(uint64_t quad, uint32_t salt, PhiloxKey key) {
  return philox({lowWord(quad), highWord(quad), salt, 0}, key);
}

/// A quarter turn as a word: philoxNormal(a, b - kQuarterTurn) is the sine branch of (a, b).
constexpr uint32_t kQuarterTurn = 0x40000000u;

/// The standard normal number of element 4·quad + lane: two words give two numbers, first the cosine, then the sine
/// branch.
inline double philoxNormalOf(const std::array<uint32_t, 4>& words, int lane) {
  const auto pair = static_cast<size_t>(lane & 2);
  return philoxNormal(words[pair], words[pair + 1] - (lane & 1 ? kQuarterTurn : 0));
}

}  // namespace tg
