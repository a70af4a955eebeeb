// SPDX-License-Identifier: Apache-2.0
// The pipeline cache on disk. A driver checks only the header that it wrote, so the file has a checksum of its whole
// contents: a truncated or damaged file must not reach the driver.
#include <algorithm>
#include <cstring>
#include <filesystem>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "runtime/data/file_io.h"
#include "runtime/vulkan/device_state.h"

namespace tg::vulkan {

namespace {

constexpr char magic[8] = {'t', 'g', 'p', 'i', 'p', 'e', '0', '1'};

/// A driver never removes entries from a cache, so a file that has grown to this size is discarded.
constexpr uintmax_t mostBytes = uintmax_t(256) << 20;

struct FileHeader {
  char magic[8];
  uint64_t bytes;
  uint64_t checksum;
};

/// The driver's part of a file, or empty if the file is damaged or cannot be read.
std::span<const std::byte> payload(const Result<std::vector<std::byte>>& file) {
  FileHeader header;
  if (!file || file->size() < sizeof header) return {};
  std::memcpy(&header, file->data(), sizeof header);
  const std::span<const std::byte> data = std::span(*file).subspan(sizeof header);
  if (std::memcmp(header.magic, magic, sizeof magic) || header.bytes != data.size()) return {};
  if (XXH3_64bits(data.data(), data.size()) != header.checksum) return {};
  return data;
}

bool madeBy(const Probe& probe, std::span<const std::byte> data) {
  VkPipelineCacheHeaderVersionOne header;
  if (data.size() < sizeof header) return false;
  std::memcpy(&header, data.data(), sizeof header);
  return header.headerVersion == VK_PIPELINE_CACHE_HEADER_VERSION_ONE && header.vendorID == probe.vendorId &&
         header.deviceID == probe.deviceId &&
         !std::memcmp(header.pipelineCacheUUID, probe.cacheUuid, VK_UUID_SIZE);
}

}  // namespace

std::string Device::cacheName() const { return "pipelines-" + info().cacheKey + ".bin"; }

Result<bool> Device::loadCache(const std::string& path) {
  std::error_code absent;
  if (const uintmax_t bytes = std::filesystem::file_size(path, absent); absent || bytes > mostBytes)
    return false;
  const auto file = readFile(path);
  const std::span<const std::byte> data = payload(file);
  if (!madeBy(state_->probe, data)) return false;
  const VolkDeviceTable& vk = state_->vk();
  auto info = typed<VkPipelineCacheCreateInfo>(VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO);
  info.initialDataSize = data.size();
  info.pInitialData = data.data();
  VkPipelineCache raw;
  VkResult result = vk.vkCreatePipelineCache(state_->raw(), &info, nullptr, &raw);
  if (result != VK_SUCCESS) return state_->failure(result, "loading the pipeline cache '{}'", path);
  Handle<VkPipelineCache> loaded(state_->raw(), raw, vk.vkDestroyPipelineCache);
  // A merge must have its destination to itself, so the mutex keeps pipelines from being created meanwhile.
  std::lock_guard lock(state_->pipelinesMutex);
  result = vk.vkMergePipelineCaches(state_->raw(), state_->cache.get(), 1, &raw);
  if (result != VK_SUCCESS) return state_->failure(result, "loading the pipeline cache '{}'", path);
  return true;
}

Result<void> Device::saveCache(const std::string& path) {
  TG_CHECK(expectFile(path));
  const VolkDeviceTable& vk = state_->vk();
  std::vector<std::byte> data;
  VkResult result = VK_INCOMPLETE;
  while (result == VK_INCOMPLETE) {
    size_t size = 0;
    result = vk.vkGetPipelineCacheData(state_->raw(), state_->cache.get(), &size, nullptr);
    if (result != VK_SUCCESS) break;
    data.resize(size);
    result = vk.vkGetPipelineCacheData(state_->raw(), state_->cache.get(), &size, data.data());
    data.resize(size);
  }
  if (result != VK_SUCCESS) return state_->failure(result, "reading the pipeline cache");

  const auto before = readFile(path);
  const std::span<const std::byte> kept = payload(before);
  if (std::equal(kept.begin(), kept.end(), data.begin(), data.end())) return {};

  FileHeader header{{}, data.size(), XXH3_64bits(data.data(), data.size())};
  std::memcpy(header.magic, magic, sizeof magic);
  TG_TRY(AtomicFile out, AtomicFile::create(path));
  TG_CHECK(out.write(std::as_bytes(std::span(&header, 1))));
  TG_CHECK(out.write(data));
  return out.commit();
}

}  // namespace tg::vulkan
