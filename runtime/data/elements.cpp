// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/elements.h"

#include <fmt/format.h>

#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "runtime/data/half.h"

namespace tg {

namespace {

constexpr std::pair<FileType, std::string_view> kNames[] = {
    {FileType::boolean, "i1"}, {FileType::i8, "i8"},   {FileType::u8, "u8"},     {FileType::i16, "i16"},
    {FileType::u16, "u16"},    {FileType::i32, "i32"}, {FileType::u32, "u32"},   {FileType::i64, "i64"},
    {FileType::u64, "u64"},    {FileType::f16, "f16"}, {FileType::bf16, "bf16"}, {FileType::f32, "f32"},
    {FileType::f64, "f64"}};

/// Converts each stored `From` by `convert` into a `To` of `array`.
template <class From, class To, class Convert>
void convertAll(std::span<const std::byte> raw, HostArray& array, Convert convert) {
  const size_t count = raw.size() / sizeof(From);
  for (size_t index = 0; index < count; ++index) {
    From stored;
    std::memcpy(&stored, raw.data() + index * sizeof(From), sizeof(From));
    const To value = convert(stored);
    std::memcpy(array.bytes.data() + index * sizeof(To), &value, sizeof(To));
  }
}

template <class From>
Result<HostArray> toI32(const Shape& shape, std::span<const std::byte> raw) {
  HostArray array = HostArray::zeros(DType::i32, shape);
  bool fits = true;
  From outlier = 0;
  convertAll<From, int32_t>(raw, array, [&](From value) {
    bool inside = true;
    if constexpr (std::is_same_v<From, int64_t>)
      inside = value >= std::numeric_limits<int32_t>::min() && value <= std::numeric_limits<int32_t>::max();
    if constexpr (std::is_same_v<From, uint64_t>) inside = value <= std::numeric_limits<int32_t>::max();
    if (!inside && fits) outlier = value;
    fits = fits && inside;
    return static_cast<int32_t>(value);
  });
  if (!fits) return fail(fmt::format("expected 64-bit integers that fit i32, got {}", outlier));
  return array;
}

template <class From, class Convert>
HostArray toF32(const Shape& shape, std::span<const std::byte> raw, Convert convert) {
  HostArray array = HostArray::zeros(DType::f32, shape);
  convertAll<From, float>(raw, array, convert);
  return array;
}

Result<HostArray> toI1(const Shape& shape, std::span<const std::byte> raw) {
  HostArray array = HostArray::zeros(DType::i1, shape);
  uint8_t largest = 0;
  convertAll<uint8_t, int32_t>(raw, array, [&](uint8_t value) {
    if (value > largest) largest = value;
    return static_cast<int32_t>(value);
  });
  if (largest > 1) return fail(fmt::format("expected booleans stored as 0 or 1, got {}", largest));
  return array;
}

HostArray copyOf(DType dtype, const Shape& shape, std::span<const std::byte> raw) {
  return {dtype, shape, std::vector<std::byte>(raw.begin(), raw.end())};
}

}  // namespace

std::string_view name(FileType type) {
  for (const auto& [known, text] : kNames)
    if (known == type) return text;
  return "?";
}

std::optional<FileType> fileTypeNamed(std::string_view name) {
  for (const auto& [known, text] : kNames)
    if (text == name) return known;
  return std::nullopt;
}

DType hostType(FileType type) {
  switch (type) {
  case FileType::boolean: return DType::i1;
  case FileType::u32: return DType::u32;
  case FileType::f16:
  case FileType::bf16:
  case FileType::f32:
  case FileType::f64: return DType::f32;
  default: return DType::i32;
  }
}

int64_t byteSize(FileType type) {
  switch (type) {
  case FileType::boolean:
  case FileType::i8:
  case FileType::u8: return 1;
  case FileType::i16:
  case FileType::u16:
  case FileType::f16:
  case FileType::bf16: return 2;
  case FileType::i32:
  case FileType::u32:
  case FileType::f32: return 4;
  case FileType::i64:
  case FileType::u64:
  case FileType::f64: return 8;
  }
  return 0;
}

Result<HostArray> fromFileElements(FileType type, const Shape& shape, std::span<const std::byte> raw) {
  const int64_t expected = shape.elements() * byteSize(type);
  if (static_cast<size_t>(expected) != raw.size())
    return fail(fmt::format("expected {} bytes of elements, got {}", expected, raw.size()));
  switch (type) {
  case FileType::boolean: return toI1(shape, raw);
  case FileType::i8: return toI32<int8_t>(shape, raw);
  case FileType::u8: return toI32<uint8_t>(shape, raw);
  case FileType::i16: return toI32<int16_t>(shape, raw);
  case FileType::u16: return toI32<uint16_t>(shape, raw);
  case FileType::i64: return toI32<int64_t>(shape, raw);
  case FileType::u64: return toI32<uint64_t>(shape, raw);
  case FileType::i32: return copyOf(DType::i32, shape, raw);
  case FileType::u32: return copyOf(DType::u32, shape, raw);
  case FileType::f32: return copyOf(DType::f32, shape, raw);
  case FileType::f16: return toF32<uint16_t>(shape, raw, halfToFloat);
  case FileType::bf16: return toF32<uint16_t>(shape, raw, bfloatToFloat);
  case FileType::f64:
    return toF32<double>(shape, raw, [](double value) { return static_cast<float>(value); });
  }
  return fail("unknown element type");
}

FileType fileTypeOf(DType dtype) {
  switch (dtype) {
  case DType::f32: return FileType::f32;
  case DType::f16: return FileType::f16;
  case DType::i32: return FileType::i32;
  case DType::u32: return FileType::u32;
  case DType::i1: return FileType::boolean;
  }
  return FileType::f32;
}

std::vector<std::byte> toFileElements(const HostArray& array) {
  if (array.dtype != DType::i1) return array.bytes;
  std::vector<std::byte> packed;
  packed.reserve(array.i32().size());
  for (const int32_t flag : array.i32()) packed.push_back(static_cast<std::byte>(flag != 0));
  return packed;
}

}  // namespace tg
