// SPDX-License-Identifier: Apache-2.0
// The representation of a tensor element in memory: little-endian; i1 as a 4-byte 0 or 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "runtime/interp/nd_array.h"

namespace tg {

/// Marks memory that was never written: as f32 a quiet NaN, as i32 negative.
constexpr uint32_t kPoison = 0xFFC0DEADu;

inline void poisonBytes(std::span<std::byte> bytes) {
  for (size_t at = 0; at < bytes.size(); at += sizeof kPoison)
    std::memcpy(bytes.data() + at, &kPoison, std::min(sizeof kPoison, bytes.size() - at));
}

template <class T>
T loadBytes(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
template <class T>
void storeBytes(T value, std::byte* to) {
  std::memcpy(to, &value, sizeof value);
}

inline double decodeElement(DType dtype, const std::byte* from) {
  switch (info(dtype).family) {
  case DTypeFamily::real:
    if (isNarrow(dtype)) return narrowValue(dtype, loadBytes<uint16_t>(from));
    return static_cast<double>(loadBytes<float>(from));
  case DTypeFamily::sint: return loadBytes<int32_t>(from);
  case DTypeFamily::uint: return loadBytes<uint32_t>(from);
  case DTypeFamily::flag: return loadBytes<uint32_t>(from) != 0;
  }
  return 0;
}

/// Rounds the value to the type and stores it.
inline void encodeElement(DType dtype, double value, std::byte* to) {
  switch (info(dtype).family) {
  case DTypeFamily::real:
    if (isNarrow(dtype)) return storeBytes(narrowBits(dtype, value), to);
    return storeBytes(static_cast<float>(value), to);
  case DTypeFamily::sint: return storeBytes(static_cast<int32_t>(roundTo(dtype, value)), to);
  case DTypeFamily::uint: return storeBytes(static_cast<uint32_t>(roundTo(dtype, value)), to);
  case DTypeFamily::flag: return storeBytes<uint32_t>(value != 0, to);
  }
}

}  // namespace tg
