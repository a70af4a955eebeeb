// SPDX-License-Identifier: Apache-2.0
#include "ir/dtype.h"

#include <cassert>
#include <cmath>
#include <iterator>
#include <limits>

namespace tg {

std::optional<DType> dtypeNamed(std::string_view name) {
  for (const DTypeInfo& row : kDTypes)
    if (row.name == name) return row.dtype;
  return std::nullopt;
}

std::string dtypeNames() {
  std::string text;
  for (const DTypeInfo& row : kDTypes) {
    const bool last = &row == std::end(kDTypes) - 1;
    text += (text.empty() ? "" : last ? " or " : ", ") + std::string(row.name);
  }
  return text;
}

namespace {

/// A 16-bit type as IEEE 754 lays it out: sign, exponent and fraction.
struct NarrowLayout {
  int fraction;       ///< stored bits of the significand
  uint16_t infinity;  ///< the bits of +inf

  explicit NarrowLayout(const DTypeInfo& type)
      : fraction(type.digits - 1), infinity(static_cast<uint16_t>(((1 << (15 - fraction)) - 1) << fraction)) {
  }
};

constexpr uint16_t kNarrowSign = 0x8000;

}  // namespace

uint16_t narrowBits(DType narrow, double value) {
  const DTypeInfo& type = info(narrow);
  assert(isNarrow(narrow));
  const NarrowLayout layout(type);
  const uint16_t sign = std::signbit(value) ? kNarrowSign : 0;
  const double size = std::fabs(value);
  if (std::isnan(value)) return sign | layout.infinity | static_cast<uint16_t>(1 << (layout.fraction - 1));
  if (std::isinf(value)) return sign | layout.infinity;
  // Below the smallest normal the spacing stays that of subnormals.
  const int exponent = size < std::ldexp(1.0, type.least) ? type.least : std::ilogb(size);
  if (exponent > -type.least + 1) return sign | layout.infinity;
  // A fraction that rounds up to the next power of two carries into the exponent.
  const auto digits = static_cast<int>(std::nearbyint(std::ldexp(size, layout.fraction - exponent)));
  return static_cast<uint16_t>(sign | (((exponent - type.least) << layout.fraction) + digits));
}

double narrowValue(DType narrow, uint16_t bits) {
  const DTypeInfo& type = info(narrow);
  assert(isNarrow(narrow));
  const NarrowLayout layout(type);
  const uint16_t rest = bits & static_cast<uint16_t>(~kNarrowSign);
  const int exponent = rest >> layout.fraction, digits = rest & ((1 << layout.fraction) - 1);
  double size;
  if (rest >= layout.infinity)
    size = digits ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
  else if (exponent == 0)
    size = std::ldexp(digits, type.least - layout.fraction);
  else
    size = std::ldexp(digits + (1 << layout.fraction), exponent - 1 + type.least - layout.fraction);
  return bits & kNarrowSign ? -size : size;
}

double roundedTo(DType real, double value) {
  if (!isFloat(real)) return value;
  if (isNarrow(real)) return narrowValue(real, narrowBits(real, value));
  return static_cast<double>(static_cast<float>(value));
}

}  // namespace tg
