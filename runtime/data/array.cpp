// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/array.h"

#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>

#include "ir/text.h"

namespace tg {

static_assert(std::endian::native == std::endian::little, "files and buffers hold little-endian words");

namespace {

template <class T>
T loadElement(std::span<const std::byte> bytes, int64_t index) {
  T value;
  assert(index >= 0 && (static_cast<size_t>(index) + 1) * sizeof(T) <= bytes.size());
  std::memcpy(&value, bytes.data() + static_cast<size_t>(index) * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void storeElement(std::vector<std::byte>& bytes, int64_t index, T value) {
  assert(index >= 0 && (static_cast<size_t>(index) + 1) * sizeof(T) <= bytes.size());
  std::memcpy(bytes.data() + static_cast<size_t>(index) * sizeof(T), &value, sizeof(T));
}

template <class T>
T saturate(double value) {
  if (std::isnan(value)) return 0;
  if (value <= static_cast<double>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
  if (value >= static_cast<double>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
  return static_cast<T>(value);
}

}  // namespace

/// An array of this shape with a copy of these elements.
template <class T>
static Result<HostArray> arrayOf(DType dtype, std::span<const T> values, std::span<const int64_t> extents) {
  TG_TRY(Shape shape, checkedShape(extents));
  if (shape.elements() != static_cast<int64_t>(values.size()))
    return fail("{} for the shape {}", countText(values.size(), "value"), shape.str());
  const auto bytes = std::as_bytes(values);
  return HostArray{dtype, shape, {bytes.begin(), bytes.end()}};
}

Result<HostArray> HostArray::of(std::span<const float> values, std::span<const int64_t> shape) {
  return arrayOf(DType::f32, values, shape);
}
Result<HostArray> HostArray::of(std::span<const int32_t> values, std::span<const int64_t> shape) {
  return arrayOf(DType::i32, values, shape);
}
HostArray HostArray::of(const std::vector<float>& values) {
  const std::array extents = {static_cast<int64_t>(values.size())};
  return *of(std::span<const float>(values), extents);
}
HostArray HostArray::of(const std::vector<int32_t>& values) {
  const std::array extents = {static_cast<int64_t>(values.size())};
  return *of(std::span<const int32_t>(values), extents);
}
HostArray HostArray::of(float value) { return *of(std::span<const float>(&value, 1), {}); }
HostArray HostArray::of(int32_t value) { return *of(std::span<const int32_t>(&value, 1), {}); }

HostArray HostArray::zeros(const Type& type) {
  assert(type.isTensor());
  const bool has = static_cast<bool>(checkedShape(type.shape));
  return {type.dtype, type.shape, std::vector<std::byte>(has ? static_cast<size_t>(type.bytes()) : 0)};
}

Result<void> HostView::checkBytes(std::string_view what) const {
  if (auto has = checkedShape(shape); !has)
    return fail("{} of type {}: {}", what, type().str(), has.error().message());
  if (bytes.size() == static_cast<size_t>(type().bytes())) return checkFlags(what, type(), bytes);
  return fail("{} of type {} takes {}, and {}", what, type().str(), countText(type().bytes(), "byte"),
              countText(bytes.size(), "was given", "were given"));
}

Result<void> checkFlags(std::string_view what, const Type& type, std::span<const std::byte> bytes,
                        int64_t first) {
  if (type.dtype != DType::i1) return {};
  for (size_t at = 0; at < bytes.size(); at += sizeof(int32_t)) {
    int32_t flag = 0;
    std::memcpy(&flag, &bytes[at], sizeof(flag));
    if (flag != 0 && flag != 1)
      return fail("{} of type {} has elements of 0 and 1, and element {} is {}", what, type.str(),
                  first + static_cast<int64_t>(at / sizeof(int32_t)), flag);
  }
  return {};
}

std::span<float> HostArray::f32() {
  assert(dtype == DType::f32);
  return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
}

std::span<const float> HostArray::f32() const {
  assert(dtype == DType::f32);
  return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
}

std::span<int32_t> HostArray::i32() {
  assert(dtype == DType::i32 || dtype == DType::i1);
  return {reinterpret_cast<int32_t*>(bytes.data()), bytes.size() / sizeof(int32_t)};
}

std::span<const int32_t> HostArray::i32() const {
  assert(dtype == DType::i32 || dtype == DType::i1);
  return {reinterpret_cast<const int32_t*>(bytes.data()), bytes.size() / sizeof(int32_t)};
}

double unsignedNan(double value) {
  return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value;
}

double HostView::at(int64_t index) const {
  switch (info(dtype).family) {
  case DTypeFamily::real:
    if (isNarrow(dtype)) return unsignedNan(narrowValue(dtype, loadElement<uint16_t>(bytes, index)));
    return unsignedNan(loadElement<float>(bytes, index));
  case DTypeFamily::uint: return loadElement<uint32_t>(bytes, index);
  case DTypeFamily::sint:
  case DTypeFamily::flag: return loadElement<int32_t>(bytes, index);
  }
  return 0;
}

void HostArray::set(int64_t index, double value) {
  switch (info(dtype).family) {
  case DTypeFamily::real:
    if (isNarrow(dtype)) return storeElement(bytes, index, narrowBits(dtype, value));
    return storeElement(bytes, index, static_cast<float>(value));
  case DTypeFamily::uint: return storeElement(bytes, index, saturate<uint32_t>(value));
  case DTypeFamily::sint: return storeElement(bytes, index, saturate<int32_t>(value));
  case DTypeFamily::flag: return storeElement<int32_t>(bytes, index, value != 0);
  }
}

Result<Shape> checkedShape(std::span<const int64_t> dims) {
  constexpr int64_t kMaxElements = int64_t{1} << 48;
  if (dims.size() > kMaxRank) return fail("expected at most {} dimensions, got {}", kMaxRank, dims.size());
  Shape shape;
  int64_t elements = 1;
  for (const int64_t dim : dims) {
    if (dim < 0 || dim >= kMaxElements) return fail("the extent {} is out of range", dim);
    // Zeros count as ones here, so that the product of the other extents cannot overflow later.
    if (dim > 1 && elements > kMaxElements / dim) return fail("too many elements");
    if (dim > 1) elements *= dim;
    shape.push(dim);
  }
  return shape;
}

}  // namespace tg
