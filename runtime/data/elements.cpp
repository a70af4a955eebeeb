// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/elements.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace tg {

namespace {

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

std::optional<FileType> fileTypeNamed(std::string_view name) {
  for (const FileTypeInfo& row : kFileTypes)
    if (row.name == name) return row.type;
  return std::nullopt;
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
  case FileType::f16:
    return toF32<uint16_t>(shape, raw,
                           [](uint16_t bits) { return static_cast<float>(narrowValue(DType::f16, bits)); });
  case FileType::bf16:
    return toF32<uint16_t>(shape, raw,
                           [](uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); });
  case FileType::f64:
    return toF32<double>(shape, raw, [](double value) { return static_cast<float>(value); });
  }
  return fail("unknown element type");
}

FileType fileTypeOf(DType dtype) { return *fileTypeNamed(name(dtype)); }

std::vector<std::byte> toFileElements(const HostArray& array) {
  if (array.dtype != DType::i1) return array.bytes;
  std::vector<std::byte> packed;
  packed.reserve(array.i32().size());
  for (const int32_t flag : array.i32()) packed.push_back(static_cast<std::byte>(flag != 0));
  return packed;
}

Result<HostArray> convertedTo(const HostArray& from, DType dtype) {
  if (from.dtype == dtype) return from;
  if (isFloat(from.dtype) != isFloat(dtype)) return fail("it is of another type");
  HostArray to = HostArray::zeros(dtype, from.shape);
  for (int64_t i = 0; i < from.elements(); ++i) {
    const double value = from.at(i);
    to.set(i, value);
    if (!isFloat(dtype) && to.at(i) != value)
      return fail(fmt::format("element {} is {}, which does not fit", i, value));
    if (isFloat(dtype) && std::isfinite(value) && !std::isfinite(to.at(i)))
      return fail(fmt::format("element {} is {}, which does not fit", i, value));
  }
  return to;
}

}  // namespace tg
