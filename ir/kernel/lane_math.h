// SPDX-License-Identifier: Apache-2.0
// The arithmetic of the kernel language on one lane: the functions in the value column of ir/kernel/semantics.def.
// Integers wrap, shift counts are taken mod 32, and every division has a result. Real is float where results are
// rounded as on a device, double where nothing is rounded; bool is a lane type of its own.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>

#include "ir/dtype.h"
#include "ir/scalar.h"

namespace tg::lane_math {

template <class T>
concept Integer = std::same_as<T, int32_t> || std::same_as<T, uint32_t>;
template <class T>
concept Real = std::floating_point<T>;

template <Integer T>
constexpr uint32_t toWord(T x) {
  return static_cast<uint32_t>(x);
}

template <class T>
T add(T x, T y) {
  if constexpr (Integer<T>)
    return static_cast<T>(toWord(x) + toWord(y));
  else
    return x + y;
}
template <class T>
T sub(T x, T y) {
  if constexpr (Integer<T>)
    return static_cast<T>(toWord(x) - toWord(y));
  else
    return x - y;
}
template <class T>
T mul(T x, T y) {
  if constexpr (Integer<T>)
    return static_cast<T>(toWord(x) * toWord(y));
  else
    return x * y;
}
template <class T>
T neg(T x) {
  if constexpr (Integer<T>)
    return static_cast<T>(0u - toWord(x));
  else
    return -x;
}

/// u32 x/0 is the largest u32, i32 x/0 is 0, and the least i32 divided by -1 wraps.
template <Real T>
T div(T x, T y) {
  return x / y;
}
inline uint32_t div(uint32_t x, uint32_t y) { return y == 0 ? UINT32_MAX : x / y; }
inline int32_t div(int32_t x, int32_t y) { return y == 0 ? 0 : y == -1 ? neg(x) : x / y; }
inline uint32_t mod(uint32_t x, uint32_t y) { return y == 0 ? 0 : x % y; }
inline int32_t mod(int32_t x, int32_t y) { return y == 0 || y == -1 ? 0 : x % y; }

/// NaN if either operand is.
template <Real T>
T min(T x, T y) {
  return y < x || std::isnan(y) ? y : x;
}
template <Integer T>
T min(T x, T y) {
  return std::min(x, y);
}
template <Real T>
T max(T x, T y) {
  return y > x || std::isnan(y) ? y : x;
}
template <Integer T>
T max(T x, T y) {
  return std::max(x, y);
}

template <Real T>
T abs(T x) {
  return std::fabs(x);
}
inline int32_t abs(int32_t x) { return x < 0 ? neg(x) : x; }
inline uint32_t abs(uint32_t x) { return x; }
/// The sign; 0 for NaN.
template <class T>
T sign(T x) {
  return static_cast<T>((x > 0) - (x < 0));
}

inline bool invert(bool x) { return !x; }
template <Integer T>
T invert(T x) {
  return ~x;
}
inline uint32_t reverseBits(uint32_t x) {
  uint32_t out = 0;
  for (int bit = 0; bit < 32; ++bit) out |= (x >> bit & 1u) << (31 - bit);
  return out;
}

/// x rounded to a 16-bit type; unchanged where nothing is rounded (Real is double).
template <DType narrow, Real T>
T rounded(T x) {
  return std::same_as<T, double> ? x : static_cast<T>(roundedTo(narrow, double{x}));
}

/// x and y rounded to a 16-bit type, as the bits of one word with x in the low half.
template <DType narrow, Real T>
uint32_t packed(T x, T y) {
  return uint32_t{narrowBits(narrow, double{x})} | uint32_t{narrowBits(narrow, double{y})} << 16;
}
/// The value of the 16-bit type whose bits are in the low half of a word.
template <DType narrow>
float unpacked(uint32_t x) {
  return static_cast<float>(narrowValue(narrow, static_cast<uint16_t>(x)));
}

/// A function of the scalar table, computed in f64.
template <Scalar function, Real T>
T scalar(T x, T y = 0) {
  return static_cast<T>(evalScalar(function, double{x}, double{y}));
}

/// tgk.cast. A float to an integer loses its fraction and is clamped to the range; NaN gives 0. To bool: x != 0.
template <class To, class From>
To converted(From x) {
  if constexpr (std::same_as<To, bool>) {
    return x != 0;
  } else if constexpr (Real<From> && Integer<To>) {
    if (std::isnan(x)) return 0;
    const double whole = std::trunc(double{x});
    const double least = std::numeric_limits<To>::min(), most = std::numeric_limits<To>::max();
    return static_cast<To>(whole < least ? least : whole > most ? most : whole);
  } else {
    return static_cast<To>(x);
  }
}

}  // namespace tg::lane_math
