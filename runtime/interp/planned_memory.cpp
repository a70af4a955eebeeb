// SPDX-License-Identifier: Apache-2.0
#include "runtime/interp/planned_memory.h"

#include "runtime/interp/element_bytes.h"

namespace tg {

namespace {

/// The length of rows (the last axis; 1 for rank 0), and the distance between their starts, in elements.
struct Rows {
  int64_t count, length, pitch;
  Rows(const Type& type, const Place& place)
      : length(type.rank() == 0 ? 1 : type.shape.back()), pitch(place.pitch == 0 ? length : place.pitch) {
    count = type.elements() / length;
  }
};

/// Calls fn(element index, byte offset from the place's start) for every element.
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
  if (it == buffers_.end()) return failAt(loc, "the module has no buffer @{}", buffer);
  const auto size = static_cast<int64_t>(it->second.size());
  if (offset < 0 || length < 0 || length > size || offset > size - length)
    return failAt(loc, "@{}[{}] with {} bytes is outside the buffer of {} bytes", buffer, offset, length,
                  size);
  return std::span(it->second).subspan(static_cast<size_t>(offset), static_cast<size_t>(length));
}

Result<NdArray> PlannedMemory::read(const Type& type, const Place& place, const Loc& loc) {
  TG_TRY(std::span<std::byte> bytes, range(place.buffer, place.offset, placedBytes(type, place), loc));
  NdArray array = NdArray::zeros(type);
  forEachElement(type, place, [&](int64_t at, int64_t offset) {
    array.data[at] = decodeElement(type.dtype, bytes.data() + offset);
  });
  return array;
}

Result<void> PlannedMemory::write(const NdArray& array, const Place& place, const Loc& loc) {
  TG_TRY(std::span<std::byte> bytes, range(place.buffer, place.offset, placedBytes(array.type, place), loc));
  forEachElement(array.type, place, [&](int64_t at, int64_t offset) {
    encodeElement(array.type.dtype, array.data[at], bytes.data() + offset);
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
