// SPDX-License-Identifier: Apache-2.0
#include "runtime/vulkan/share.h"

#include "runtime/vulkan/device_state.h"

namespace tg::vulkan {

namespace {

Result<void> checkShared(const DeviceState& state) {
  if (state.shared) return {};
  return fail("the device {} was not opened to be shared with another API", state.probe.info.name);
}

Result<int> share(DeviceState& state, VkSemaphore semaphore) {
  TG_CHECK(checkShared(state));
  auto info = typed<VkSemaphoreGetFdInfoKHR>(VK_STRUCTURE_TYPE_SEMAPHORE_GET_FD_INFO_KHR);
  info.semaphore = semaphore;
  info.handleType = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT;
  int descriptor = -1;
  VkResult result = state.vk().vkGetSemaphoreFdKHR(state.raw(), &info, &descriptor);
  if (result != VK_SUCCESS) return state.failure(result, "sharing a semaphore");
  return descriptor;
}

}  // namespace

Result<SharedMemory> shareMemory(const Buffer& buffer) {
  DeviceState& state = buffer.device().state();
  TG_CHECK(checkShared(state));
  const Allocation& allocation = buffer.allocation();
  if (!allocation.sharedBytes)
    return fail("buffer '{}' is in host memory, which is not shared", allocation.name);
  auto info = typed<VkMemoryGetFdInfoKHR>(VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR);
  info.memory = allocation.memory.get();
  info.handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
  SharedMemory out{-1, allocation.sharedBytes};
  VkResult result = state.vk().vkGetMemoryFdKHR(state.raw(), &info, &out.descriptor);
  if (result != VK_SUCCESS) return state.failure(result, "sharing buffer '{}'", allocation.name);
  return out;
}

Result<int> shareSubmissions(Device& device) {
  return share(device.state(), device.state().work.timeline.get());
}

struct ExternalTimeline::Impl {
  std::shared_ptr<Device> device;
  Handle<VkSemaphore> semaphore;
};

ExternalTimeline::ExternalTimeline() : impl_(std::make_unique<Impl>()) {}

Result<std::unique_ptr<ExternalTimeline>> ExternalTimeline::create(Device& device) {
  std::unique_ptr<ExternalTimeline> timeline(new ExternalTimeline);
  timeline->impl_->device = device.shared_from_this();
  TG_CHECK(checkShared(device.state()));
  TG_TRY(timeline->impl_->semaphore, makeTimeline(device.state(), "external timeline"));
  return timeline;
}

ExternalTimeline::~ExternalTimeline() {
  DeviceState& state = impl_->device->state();
  if (auto waited = state.waitFor(state.newest()); !waited) state.lost = true;
}

Result<int> ExternalTimeline::share() const {
  return vulkan::share(impl_->device->state(), impl_->semaphore.get());
}

Result<uint64_t> ExternalTimeline::reached() const {
  DeviceState& state = impl_->device->state();
  uint64_t value = 0;
  VkResult result = state.vk().vkGetSemaphoreCounterValue(state.raw(), impl_->semaphore.get(), &value);
  if (result != VK_SUCCESS) return state.failure(result, "reading a timeline semaphore");
  return value;
}

void ExternalTimeline::await(uint64_t value) {
  DeviceState& state = impl_->device->state();
  std::lock_guard lock(state.queueMutex);
  state.awaited.emplace_back(impl_->semaphore.get(), value);
}

}  // namespace tg::vulkan
