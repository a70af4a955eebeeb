// SPDX-License-Identifier: Apache-2.0
// Conversions of the 16-bit float formats that files hold.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace tg {

/// The value of IEEE binary16 bits, exactly.
inline float halfToFloat(uint16_t bits) {
  const int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  float magnitude;
  if (exponent == 31)
    magnitude = mantissa ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity();
  else if (exponent == 0)
    magnitude = std::ldexp(static_cast<float>(mantissa), -24);
  else
    magnitude = std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

/// The nearest binary16, ties to even; from 65520 on it is infinity.
inline uint16_t halfFromDouble(double value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(value);
  if (std::isnan(value)) return sign | 0x7E00;
  if (magnitude >= 65520.0) return sign | 0x7C00;
  // Below 2^-14 the spacing stays that of the subnormals.
  const int exponent = magnitude < 0x1p-14 ? -14 : std::ilogb(magnitude);
  // A mantissa that rounds up to 2048 carries into the exponent by the addition.
  const auto mantissa = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
  return static_cast<uint16_t>(sign | (((exponent + 14) << 10) + mantissa));
}

/// The value after a trip through binary16.
inline double roundedToHalf(double value) { return double{halfToFloat(halfFromDouble(value))}; }

/// The value of bfloat16 bits, exactly.
inline float bfloatToFloat(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

}  // namespace tg
