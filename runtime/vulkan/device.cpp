// SPDX-License-Identifier: Apache-2.0
#include "runtime/vulkan/device.h"

#include <vector>

#include "runtime/vulkan/device_state.h"

namespace tg::vulkan {

namespace {

struct Opening {
  std::shared_ptr<Instance> instance;
  std::vector<Probe> probes;
  std::vector<DeviceInfo> infos;
};

Result<Opening> probeAll(bool validation, std::shared_ptr<ValidationLog> log) {
  Opening opening;
  TG_TRY(opening.instance, Instance::create(validation, std::move(log)));
  TG_TRY(opening.probes, probeDevices(opening.instance->raw()));
  for (const Probe& probe : opening.probes) opening.infos.push_back(probe.info);
  return opening;
}

/// The features that kernels may use, enabled if the device has them, and the extensions they belong to. Robust access
/// stays off.
struct DeviceRequest {
  explicit DeviceRequest(const DeviceState& state);

  template <class T>
  void add(T& structure, const char* extension) {
    features.add(structure);
    extensions.push_back(extension);
  }

  Features features;
  VkPhysicalDeviceCooperativeMatrixFeaturesNV matricesNv = typed<VkPhysicalDeviceCooperativeMatrixFeaturesNV>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_NV);
  KhrMatrixFeatures matricesKhr;
  KhrBf16Features bf16;
  VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR statistics =
      typed<VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR>(
          VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR);
  std::vector<const char*> extensions;
};

DeviceRequest::DeviceRequest(const DeviceState& state) : features(state.probe.apiVersion) {
  const Probe& probe = state.probe;
  features.core.features.shaderInt64 = probe.info.int64;
  features.core.features.shaderInt16 = probe.int16;
  features.v11.storageBuffer16BitAccess = probe.info.target.halfStorage;
  features.v12.shaderFloat16 = probe.info.float16;
  features.v12.timelineSemaphore = VK_TRUE;
  features.v12.vulkanMemoryModel = probe.matricesNv || probe.matricesKhr;
  features.v12.vulkanMemoryModelDeviceScope = features.v12.vulkanMemoryModel && probe.deviceScope;
  features.v13.subgroupSizeControl = probe.choosesSubgroup;
  features.atomics.shaderBufferFloat32AtomicAdd = VK_TRUE;
  if (probe.floatAtomics) add(features.atomics, VK_EXT_SHADER_ATOMIC_FLOAT_EXTENSION_NAME);
  matricesNv.cooperativeMatrix = VK_TRUE;
  if (probe.matricesNv) add(matricesNv, VK_NV_COOPERATIVE_MATRIX_EXTENSION_NAME);
  matricesKhr.matrices = VK_TRUE;
  if (probe.matricesKhr) add(matricesKhr, kKhrMatrixExtension);
  bf16.type = bf16.matrices = VK_TRUE;
  if (probe.matricesBf16) add(bf16, kKhrBf16Extension);
  if (probe.info.takesHostMemory) extensions.push_back(VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME);
  statistics.pipelineExecutableInfo = VK_TRUE;
  if (state.statistics) add(statistics, VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME);
  if (state.shared) {
    extensions.push_back(VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME);
    extensions.push_back(VK_KHR_EXTERNAL_SEMAPHORE_FD_EXTENSION_NAME);
  }
}

VkResult createLogicalDevice(DeviceState& state) {
  const Probe& probe = state.probe;
  const float priority = 1;
  std::vector<VkDeviceQueueCreateInfo> queues;
  auto add = [&](uint32_t family) {
    auto& queue =
        queues.emplace_back(typed<VkDeviceQueueCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO));
    queue.queueFamilyIndex = family;
    queue.queueCount = 1;
    queue.pQueuePriorities = &priority;
  };
  add(probe.queueFamily);
  if (probe.uploadFamily) add(*probe.uploadFamily);
  const DeviceRequest request(state);
  auto info = typed<VkDeviceCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO);
  info.pNext = &request.features.core;
  info.enabledExtensionCount = static_cast<uint32_t>(request.extensions.size());
  info.ppEnabledExtensionNames = request.extensions.data();
  info.queueCreateInfoCount = static_cast<uint32_t>(queues.size());
  info.pQueueCreateInfos = queues.data();
  VkResult result = vkCreateDevice(probe.physical, &info, nullptr, &state.device.raw);
  if (result != VK_SUCCESS) return result;
  countHandles(1);
  volkLoadDeviceTable(&state.device.vk, state.raw());
  state.work.family = probe.queueFamily;
  state.vk().vkGetDeviceQueue(state.raw(), state.work.family, 0, &state.work.raw);
  if (!probe.uploadFamily && !state.stageTransfers) return VK_SUCCESS;
  state.uploads.family = probe.uploadFamily.value_or(probe.queueFamily);
  state.vk().vkGetDeviceQueue(state.raw(), state.uploads.family, 0, &state.uploads.raw);
  return VK_SUCCESS;
}

VkResult createDeviceObjects(DeviceState& state) {
  const VolkDeviceTable& vk = state.vk();
  auto cacheInfo = typed<VkPipelineCacheCreateInfo>(VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO);
  VkResult result = state.make(state.cache, cacheInfo, vk.vkCreatePipelineCache, vk.vkDestroyPipelineCache,
                               VK_OBJECT_TYPE_PIPELINE_CACHE, "pipelines");
  if (result != VK_SUCCESS) return result;

  return makeCommands(state, state.work.family,
                      VK_COMMAND_POOL_CREATE_TRANSIENT_BIT | VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                      "transfers", state.transferPool, state.transferCommands);
}

}  // namespace

Result<std::vector<DeviceInfo>> listDevices() {
  TG_TRY(Opening opening, probeAll(false, nullptr));
  return std::move(opening.infos);
}

Result<std::shared_ptr<Device>> Device::open(const DeviceOptions& options) {
  auto log = std::make_shared<ValidationLog>(options.ignoredMessages);
  TG_TRY(Opening opening, probeAll(options.validation, log));
  TG_TRY(Selection selection, selectDevice(opening.infos, options.select));

  std::shared_ptr<Device> device(new Device());
  device->log_ = std::move(log);
  device->why_ = std::move(selection.why);
  device->state_ = std::make_unique<DeviceState>();
  DeviceState& state = *device->state_;
  state.instance = std::move(opening.instance);
  state.probe = std::move(opening.probes[size_t(selection.index)]);
  state.stageTransfers = options.stageTransfers;
  state.shared = options.shared;
  state.statistics = options.statistics && state.probe.info.statistics;
  if (options.shared && !state.probe.info.shares)
    return fail("{} shares no memory with other APIs: it lacks VK_KHR_external_memory_fd or "
                "VK_KHR_external_semaphore_fd",
                state.probe.info.name);
  VkResult result = createLogicalDevice(state);
  if (result == VK_SUCCESS) result = createDeviceObjects(state);
  if (result != VK_SUCCESS) return state.failure(result, "opening it");
  TG_TRY(state.work.timeline, makeTimeline(state, "submissions"));
  TG_TRY(state.uploads.timeline, makeTimeline(state, "uploads"));
  return device;
}

Device::~Device() = default;

int64_t Device::freeBytes() const { return freeBytesOf(state_->probe, state_->allocatedBytes); }

const DeviceInfo& Device::info() const { return state_->probe.info; }

bool Device::shared() const { return state_->shared; }

bool Device::uploadsBeside() const { return state_->uploads.raw != VK_NULL_HANDLE; }

void Device::abandon(const Error& why) {
  std::lock_guard lock(state_->abandonedMutex);
  if (state_->abandoned.empty()) state_->abandoned = why;
  state_->lost = true;
}

Result<void> Device::waitIdle() { return state_->waitFor(state_->newest()); }

Result<void> Device::waitFor(uint64_t submission) { return state_->waitFor(submission); }

uint64_t Device::submitted() { return state_->newest(); }

Result<uint64_t> Device::completed() {
  uint64_t value = 0;
  VkResult result =
      state_->vk().vkGetSemaphoreCounterValue(state_->raw(), state_->work.timeline.get(), &value);
  if (result != VK_SUCCESS) return state_->failure(result, "asking what has finished");
  return value;
}

}  // namespace tg::vulkan
