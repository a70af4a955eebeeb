// SPDX-License-Identifier: Apache-2.0
// Transfers between host and device: memcpy for mapped buffers, one staging buffer for the others.
#include <algorithm>
#include <cstring>

#include "ir/divide.h"
#include "runtime/vulkan/device_state.h"
#include "runtime/vulkan/memory.h"

namespace tg::vulkan {

namespace {

constexpr int64_t stagingLimit = int64_t(64) << 20;
constexpr int64_t stagingAlignment = 16;

/// A part of a transfer that fits in the staging buffer.
struct Piece {
  const Buffer* buffer;
  int64_t offset, bytes, staged;
  std::byte* host;
};

template <class T>
Result<void> checkRanges(Device& device, std::span<const T> all, const char* what) {
  for (const T& t : all) {
    if (!t.buffer || &t.buffer->device() != &device) return fail("a {} names no buffer of this device", what);
    const int64_t size = t.buffer->bytes();
    if (t.offset < 0 || t.bytes < 0 || t.offset > size || t.bytes > size - t.offset) {
      return fail("a {} of {} bytes at byte {} lies outside buffer '{}' of {} bytes", what, t.bytes, t.offset,
                  t.buffer->name(), size);
    }
  }
  return {};
}

/// Cuts the staged transfers into batches that fit in the staging buffer.
template <class T>
std::vector<std::vector<Piece>> batches(std::span<const T> all) {
  std::vector<std::vector<Piece>> result;
  int64_t used = stagingLimit;
  for (const T& t : all) {
    if (t.buffer->mapped()) continue;
    auto* host = static_cast<std::byte*>(const_cast<void*>(static_cast<const void*>(t.data)));
    for (int64_t done = 0; done < t.bytes;) {
      if (used >= stagingLimit) {
        result.emplace_back();
        used = 0;
      }
      const int64_t bytes = std::min(t.bytes - done, stagingLimit - used);
      result.back().push_back({t.buffer, t.offset + done, bytes, used, host + done});
      done += bytes;
      used = alignTo(used + bytes, stagingAlignment);
    }
  }
  return result;
}

/// Grows the staging buffer, in powers of two, so that it holds every batch. It is kept for later transfers.
Result<void> reserveStaging(DeviceState& state, const std::vector<std::vector<Piece>>& all) {
  int64_t needed = 0;
  for (const auto& batch : all) needed = std::max(needed, batch.back().staged + batch.back().bytes);
  if (needed <= state.staging.capacity) return {};
  int64_t size = 65536;
  while (size < needed) size *= 2;
  TG_TRY(Allocation larger, allocate(state, {.name = "staging", .bytes = size, .kind = MemoryKind::host}));
  state.allocatedBytes -= state.staging.capacity;
  state.staging = std::move(larger);
  return {};
}

Result<void> runBatch(DeviceState& state, const std::vector<Piece>& batch, bool upload) {
  std::byte* staging = state.staging.mapped;
  if (upload) {
    for (const Piece& p : batch) std::memcpy(staging + p.staged, p.host, size_t(p.bytes));
  }
  TG_CHECK(state.runOnce([&](VkCommandBuffer commands) {
    for (const Piece& p : batch) {
      const VkBuffer buffer = p.buffer->allocation().buffer.get();
      const VkBuffer stage = state.staging.buffer.get();
      VkBufferCopy region{VkDeviceSize(upload ? p.staged : p.offset),
                          VkDeviceSize(upload ? p.offset : p.staged), VkDeviceSize(p.bytes)};
      state.vk().vkCmdCopyBuffer(commands, upload ? stage : buffer, upload ? buffer : stage, 1, &region);
    }
  }));
  if (!upload) {
    for (const Piece& p : batch) std::memcpy(p.host, staging + p.staged, size_t(p.bytes));
  }
  return {};
}

template <class T>
bool anyMapped(std::span<const T> all) {
  return std::ranges::any_of(all, [](const T& t) { return t.buffer->mapped() && t.bytes; });
}

}  // namespace

Result<void> transfer(Device& device, std::span<const HostWrite> writes, std::span<const HostRead> reads) {
  TG_CHECK(checkRanges(device, writes, "write"));
  TG_CHECK(checkRanges(device, reads, "read"));
  DeviceState& state = device.state();
  if (anyMapped(writes) || anyMapped(reads)) TG_CHECK(state.waitFor(state.newest()));
  for (const HostWrite& w : writes) {
    if (w.buffer->mapped() && w.bytes) std::memcpy(w.buffer->mapped() + w.offset, w.data, size_t(w.bytes));
  }
  const auto uploads = batches(writes);
  const auto downloads = batches(reads);
  if (!uploads.empty() || !downloads.empty()) {
    std::lock_guard lock(state.transferMutex);
    TG_CHECK(reserveStaging(state, uploads));
    TG_CHECK(reserveStaging(state, downloads));
    for (const auto& batch : uploads) TG_CHECK(runBatch(state, batch, true));
    for (const auto& batch : downloads) TG_CHECK(runBatch(state, batch, false));
  }
  for (const HostRead& r : reads) {
    if (r.buffer->mapped() && r.bytes) std::memcpy(r.data, r.buffer->mapped() + r.offset, size_t(r.bytes));
  }
  return {};
}

}  // namespace tg::vulkan
