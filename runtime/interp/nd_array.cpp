// SPDX-License-Identifier: Apache-2.0
#include "runtime/interp/nd_array.h"

#include <algorithm>
#include <cmath>

namespace tg {

/// The low 32 bits of an integer of any size.
static uint32_t lowBits(double value) {
  if (!std::isfinite(value)) return 0;
  if (std::fabs(value) >= 0x1p62) value = std::fmod(value, 0x1p32);
  return static_cast<uint32_t>(static_cast<int64_t>(value));
}

double roundTo(DType dtype, double value) {
  switch (info(dtype).family) {
  case DTypeFamily::real: return roundedTo(dtype, value);
  case DTypeFamily::sint: return static_cast<double>(static_cast<int32_t>(lowBits(value)));
  case DTypeFamily::uint: return static_cast<double>(lowBits(value));
  case DTypeFamily::flag: return value != 0 ? 1 : 0;
  }
  return value;
}

double castTo(DType to, DType from, double value) {
  if (isFloat(to)) return value;
  if (to == DType::i1 || !isFloat(from)) return roundTo(to, value);
  if (std::isnan(value)) return 0;
  const double low = to == DType::i32 ? -0x1p31 : 0;
  const double high = to == DType::i32 ? 0x1p31 - 1 : 0x1p32 - 1;
  return std::clamp(std::trunc(value), low, high);
}

void roundAll(NdArray& array) {
  for (double& value : array.data) value = roundTo(array.type.dtype, value);
}

}  // namespace tg
