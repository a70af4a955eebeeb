// SPDX-License-Identifier: Apache-2.0
// How one element of a tensor stands in memory: little-endian, i1 as a 4-byte 0 or 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "runtime/data/half.h"
#include "runtime/interp/nd_array.h"

namespace tg {

/// What memory holds that nothing was written to: as f32 a quiet NaN, as i32 negative.
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
  switch (dtype) {
  case DType::f32: return static_cast<double>(loadBytes<float>(from));
  case DType::f16: return static_cast<double>(halfToFloat(loadBytes<uint16_t>(from)));
  case DType::i32: return loadBytes<int32_t>(from);
  case DType::u32: return loadBytes<uint32_t>(from);
  case DType::i1: return loadBytes<uint32_t>(from) != 0;
  }
  return 0;
}

/// Rounds as the type does.
inline void encodeElement(DType dtype, double value, std::byte* to) {
  switch (dtype) {
  case DType::f32: return storeBytes(static_cast<float>(value), to);
  case DType::f16: return storeBytes(halfFromDouble(value), to);
  case DType::i32: return storeBytes(static_cast<int32_t>(roundTo(dtype, value)), to);
  case DType::u32: return storeBytes(static_cast<uint32_t>(roundTo(dtype, value)), to);
  case DType::i1: return storeBytes<uint32_t>(value != 0, to);
  }
}

}  // namespace tg
