// SPDX-License-Identifier: Apache-2.0
// The pipeline cache on disk. A driver checks only the header that it wrote, so the file is sealed: a truncated or damaged
// file must not reach the driver.
#include <cstring>
#include <filesystem>

#include "ir/file_io.h"
#include "runtime/vulkan/device_state.h"

namespace tg::vulkan {

namespace {

constexpr Seal seal{"tgpipe02", {}};

/// A driver never removes entries from a cache, so a file that has grown to this size is discarded.
constexpr uintmax_t mostBytes = uintmax_t(256) << 20;

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
  const std::vector<std::byte> data = readSealed(path, seal);
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

  return readSealed(path, seal) == data ? Result<void>() : writeSealed(path, seal, data);
}

}  // namespace tg::vulkan
