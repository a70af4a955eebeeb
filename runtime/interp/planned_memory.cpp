// SPDX-License-Identifier: Apache-2.0
#include "runtime/interp/planned_memory.h"

#include "runtime/interp/element_bytes.h"

namespace tg {

namespace {

/// Calls fn(element index, byte offset from the place's start) for every element.
template <class Fn>
void forEachElement(const Type& type, Fn&& fn) {
  const int64_t size = byteSize(type.dtype);
  for (int64_t at = 0; at < type.elements(); ++at) fn(at, at * size);
}

}  // namespace

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
  TG_TRY(std::span<std::byte> bytes, range(place.buffer, place.offset, type.bytes(), loc));
  NdArray array = NdArray::zeros(type);
  forEachElement(type, [&](int64_t at, int64_t offset) {
    array.data[at] = decodeElement(type.dtype, bytes.data() + offset);
  });
  return array;
}

Result<void> PlannedMemory::write(const NdArray& array, const Place& place, const Loc& loc) {
  TG_TRY(std::span<std::byte> bytes, range(place.buffer, place.offset, array.type.bytes(), loc));
  forEachElement(array.type, [&](int64_t at, int64_t offset) {
    encodeElement(array.type.dtype, array.data[at], bytes.data() + offset);
  });
  return {};
}

Result<void> PlannedMemory::poison(const Type& type, const Place& place, const Loc& loc) {
  TG_TRY(std::span<std::byte> bytes, range(place.buffer, place.offset, type.bytes(), loc));
  const int64_t size = byteSize(type.dtype);
  forEachElement(type, [&](int64_t, int64_t offset) { poisonBytes(bytes.subspan(offset, size)); });
  return {};
}

void PlannedMemory::poisonArena() {
  if (auto it = buffers_.find("arena"); it != buffers_.end()) poisonBytes(it->second);
}

}  // namespace tg
