// SPDX-License-Identifier: Apache-2.0
// Sums of f32 without rounding: fixed point over the whole range of the type. The words of the sum do not depend on
// the order of the terms, so that sums made by many invocations are deterministic.
//
// A sum is 11 words. Ten of 32 bits, least significant first, hold a two's complement number of 320 bits whose lowest
// bit stands for 2^-149, the smallest f32. The largest f32 ends at bit 276, so that 2^42 terms of any size cannot
// overflow. The last word holds flags for the values that fixed point lacks: 1 NaN, 2 +inf, 4 -inf.
#pragma once

#include <bit>
#include <cstdint>

namespace tg::exact_sum {

constexpr int kDigits = 10;      ///< words of the number
constexpr int kFlags = kDigits;  ///< the index of the word of flags
constexpr int kWords = kDigits + 1;
constexpr uint32_t kNan = 1, kPlusInf = 2, kMinusInf = 4;

/// An f32 as a term: ±(low + high·2^32) added at word `word`, or flags. `high` has at most 23 bits.
struct Term {
  uint32_t flags = 0;
  int word = 0;
  uint32_t low = 0, high = 0;
  bool negative = false;
};

constexpr Term termOf(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  uint32_t exponent = bits >> 23 & 0xff, fraction = bits & 0x7fffff;
  Term term;
  term.negative = bits >> 31;
  if (exponent == 0xff) {
    term.flags = fraction ? kNan : term.negative ? kMinusInf : kPlusInf;
    return term;
  }
  uint32_t shift = exponent ? exponent - 1 : 0;
  uint64_t wide = uint64_t(exponent ? fraction | 0x800000 : fraction) << shift % 32;
  term.word = static_cast<int>(shift / 32);
  term.low = static_cast<uint32_t>(wide);
  term.high = static_cast<uint32_t>(wide >> 32);
  return term;
}

/// Adds a value. `fetchAdd(word, amount)` adds to one word, wrapping, and returns the word's previous value;
/// `fetchOr(word, bits)` sets bits. Both may be atomic: each carry follows from what the addition to that word
/// returned, so that concurrent additions give the right sum in any order.
template <class FetchAdd, class FetchOr>
constexpr void add(float value, FetchAdd fetchAdd, FetchOr fetchOr) {
  Term term = termOf(value);
  if (term.flags) {
    fetchOr(kFlags, term.flags);
    return;
  }
  uint32_t amount = term.low, next = term.high;
  for (int at = term.word; at < kDigits && (amount | next); ++at) {
    uint32_t carry = 0;
    if (amount && term.negative)
      carry = fetchAdd(at, 0u - amount) < amount;
    else if (amount)
      carry = fetchAdd(at, amount) > UINT32_MAX - amount;
    amount = next + carry;  // no overflow: `next` has at most 23 bits
    next = 0;
  }
}

/// Adds a value to words that nobody else accesses.
constexpr void add(uint32_t* words, float value) {
  add(
      value,
      [&](int at, uint32_t amount) {
        uint32_t before = words[at];
        words[at] += amount;
        return before;
      },
      [&](int at, uint32_t bits) { words[at] |= bits; });
}

/// Sets the sum to a value. -0 becomes 0.
constexpr void store(uint32_t* words, float value) {
  for (int at = 0; at < kWords; ++at) words[at] = 0;
  add(words, value);
}

/// The f32 nearest to the sum, ties to even; inf beyond the range. NaN if a NaN or both infinities were added.
constexpr float load(const uint32_t* words) {
  constexpr uint32_t kInfBits = 0x7f800000, kNanBits = 0x7fc00000;
  uint32_t flags = words[kFlags] & (kNan | kPlusInf | kMinusInf);
  if (flags) {
    uint32_t bits = flags == kPlusInf ? kInfBits : flags == kMinusInf ? 0x80000000 | kInfBits : kNanBits;
    return std::bit_cast<float>(bits);
  }
  uint32_t sign = words[kDigits - 1] & 0x80000000;
  uint32_t size[kDigits] = {};
  uint32_t carry = 1;
  int top = -1;
  for (int at = 0; at < kDigits; ++at) {
    size[at] = sign ? ~words[at] + carry : words[at];
    carry = carry && !size[at];
    if (size[at]) top = at;
  }
  if (top < 0) return 0;
  int highest = 32 * top + 31 - std::countl_zero(size[top]);
  if (highest < 24) return std::bit_cast<float>(sign | size[0]);  // at most 24 bits: they are the f32's own
  if (highest > 276) return std::bit_cast<float>(sign | kInfBits);
  int half = highest - 24, word = half / 32, offset = half % 32;  // the highest bit that is rounded off
  uint64_t wide = size[word] | uint64_t(word + 1 < kDigits ? size[word + 1] : 0) << 32;
  uint32_t digits = static_cast<uint32_t>(wide >> offset) & 0x1ffffff;
  bool rest = size[word] & ((1u << offset) - 1);
  for (int at = 0; at < word; ++at) rest = rest || size[at];
  uint32_t bits = (static_cast<uint32_t>(highest - 23) << 23) + (digits >> 1);
  bits += digits & 1 & (rest || (digits & 2) ? 1u : 0u);  // may carry into the exponent, up to inf
  return std::bit_cast<float>(sign | bits);
}

}  // namespace tg::exact_sum
