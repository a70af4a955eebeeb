#include "runtime/interp/planned_memory.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "runtime/data/half.h"

namespace tg {

namespace {

// As f32 a quiet NaN, as i32 negative.
constexpr uint32_t kPoison = 0xFFC0DEADu;

void poisonBytes(std::span<std::byte> bytes) {
  for (size_t at = 0; at < bytes.size(); at += sizeof kPoison)
    std::memcpy(bytes.data() + at, &kPoison, std::min(sizeof kPoison, bytes.size() - at));
}

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

double decode(DType dtype, const std::byte* from) {
  switch (dtype) {
  case DType::f32: return static_cast<double>(load<float>(from));
  case DType::f16: return static_cast<double>(halfToFloat(load<uint16_t>(from)));
  case DType::i32: return load<int32_t>(from);
  case DType::u32: return load<uint32_t>(from);
  case DType::i1: return load<uint32_t>(from) != 0;
  }
  return 0;
}

template <class T>
void store(T value, std::byte* to) {
  std::memcpy(to, &value, sizeof value);
}

void encode(DType dtype, double value, std::byte* to) {
  switch (dtype) {
  case DType::f32: return store(static_cast<float>(value), to);
  case DType::f16: return store(halfFromDouble(value), to);
  case DType::i32: return store(static_cast<int32_t>(roundTo(dtype, value)), to);
  case DType::u32: return store(static_cast<uint32_t>(roundTo(dtype, value)), to);
  case DType::i1: return store<uint32_t>(value != 0, to);
  }
}

/// Extent of the last axis, 1 for rank 0, and how far apart its rows start, in elements.
struct Rows {
  int64_t count, length, pitch;
  Rows(const Type& type, const Place& place)
      : length(type.rank() == 0 ? 1 : type.shape.back()), pitch(place.pitch == 0 ? length : place.pitch) {
    count = type.elements() / length;
  }
};

/// Calls fn(element index, byte offset from the place's start).
template <class Fn>
void forEachElement(const Type& type, const Place& place, Fn&& fn) {
  const Rows rows(type, place);
  const int64_t size = byteSize(type.dtype);
  for (int64_t row = 0; row < rows.count; ++row)
    for (int64_t col = 0; col < rows.length; ++col)
      fn(row * rows.length + col, (row * rows.pitch + col) * size);
}

}  // namespace

int64_t placedBytes(const Type& type, const Place& place) {
  const Rows rows(type, place);
  return ((rows.count - 1) * rows.pitch + rows.length) * byteSize(type.dtype);
}

PlannedMemory::PlannedMemory(const Module& module) {
  for (const Item* item : module.all(ItemKind::buffer))
    buffers_[item->name].resize(static_cast<size_t>(item->bytes));
}

Result<std::span<std::byte>> PlannedMemory::range(const std::string& buffer, int64_t offset, int64_t length,
                                                  const Loc& loc) {
  auto it = buffers_.find(buffer);
  if (it == buffers_.end()) return failAt(loc, fmt::format("the module has no buffer @{}", buffer));
  const auto size = static_cast<int64_t>(it->second.size());
  if (offset < 0 || length < 0 || length > size || offset > size - length)
    return failAt(loc, fmt::format("@{}[{}] with {} bytes is outside the buffer of {} bytes", buffer, offset,
                                   length, size));
  return std::span(it->second).subspan(static_cast<size_t>(offset), static_cast<size_t>(length));
}

Result<NdArray> PlannedMemory::read(const Type& type, const Place& place, const Loc& loc) {
  TG_TRY(std::span<std::byte> bytes, range(place.buffer, place.offset, placedBytes(type, place), loc));
  NdArray array = NdArray::zeros(type);
  forEachElement(type, place, [&](int64_t at, int64_t offset) {
    array.data[at] = decode(type.dtype, bytes.data() + offset);
  });
  return array;
}

Result<void> PlannedMemory::write(const NdArray& array, const Place& place, const Loc& loc) {
  TG_TRY(std::span<std::byte> bytes, range(place.buffer, place.offset, placedBytes(array.type, place), loc));
  forEachElement(array.type, place, [&](int64_t at, int64_t offset) {
    encode(array.type.dtype, array.data[at], bytes.data() + offset);
  });
  return {};
}

Result<void> PlannedMemory::poison(const Type& type, const Place& place, const Loc& loc) {
  TG_TRY(std::span<std::byte> bytes, range(place.buffer, place.offset, placedBytes(type, place), loc));
  const int64_t size = byteSize(type.dtype);
  forEachElement(type, place, [&](int64_t, int64_t offset) { poisonBytes(bytes.subspan(offset, size)); });
  return {};
}

void PlannedMemory::poisonArena() {
  if (auto it = buffers_.find("arena"); it != buffers_.end()) poisonBytes(it->second);
}

}  // namespace tg
