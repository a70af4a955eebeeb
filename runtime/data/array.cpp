#include "runtime/data/array.h"

#include <fmt/format.h>

#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/data/half.h"

namespace tg {

static_assert(std::endian::native == std::endian::little, "files and buffers hold little-endian words");

namespace {

template <class T>
T loadElement(const std::vector<std::byte>& bytes, int64_t index) {
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

HostArray HostArray::zeros(const Type& type) {
  assert(type.isTensor());
  return {type.dtype, type.shape, std::vector<std::byte>(static_cast<size_t>(type.bytes()))};
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

double HostArray::at(int64_t index) const {
  switch (dtype) {
  case DType::f32: return loadElement<float>(bytes, index);
  case DType::f16: return halfToFloat(loadElement<uint16_t>(bytes, index));
  case DType::u32: return loadElement<uint32_t>(bytes, index);
  case DType::i32:
  case DType::i1: return loadElement<int32_t>(bytes, index);
  }
  return 0;
}

void HostArray::set(int64_t index, double value) {
  switch (dtype) {
  case DType::f32: return storeElement(bytes, index, static_cast<float>(value));
  case DType::f16: return storeElement(bytes, index, halfFromDouble(value));
  case DType::u32: return storeElement(bytes, index, saturate<uint32_t>(value));
  case DType::i32: return storeElement(bytes, index, saturate<int32_t>(value));
  case DType::i1: return storeElement<int32_t>(bytes, index, value != 0);
  }
}

Result<Shape> checkedShape(std::span<const int64_t> dims) {
  constexpr int64_t kMaxElements = int64_t{1} << 48;
  if (dims.size() > kMaxRank)
    return fail(fmt::format("expected at most {} dimensions, got {}", kMaxRank, dims.size()));
  Shape shape;
  int64_t elements = 1;
  for (const int64_t dim : dims) {
    if (dim < 0 || dim >= kMaxElements) return fail(fmt::format("the extent {} is out of range", dim));
    // Zeros count as ones here, so that the product of the other extents cannot overflow later.
    if (dim > 1 && elements > kMaxElements / dim) return fail("too many elements");
    if (dim > 1) elements *= dim;
    shape.push(dim);
  }
  return shape;
}

}  // namespace tg
