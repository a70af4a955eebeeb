// SPDX-License-Identifier: Apache-2.0
#include "runtime/vulkan/upload.h"

#include "runtime/vulkan/command_check.h"
#include "runtime/vulkan/device_state.h"

namespace tg::vulkan {

struct Upload::Impl {
  std::shared_ptr<Device> owner;
  Handle<VkCommandPool> pool;
  VkCommandBuffer commands = VK_NULL_HANDLE;
};

Result<std::unique_ptr<Upload>> Upload::create(Device& device, const Copy& copy, const std::string& name) {
  DeviceState& state = device.state();
  if (!device.uploadsBeside()) return fail("{} has no queue for uploads", state.probe.info.name);
  TG_CHECK(checkCommand(device, copy));
  std::unique_ptr<Upload> upload(new Upload());
  upload->impl_ = std::make_unique<Impl>();
  Impl& impl = *upload->impl_;
  impl.owner = device.shared_from_this();
  VkResult result = makeCommands(state, state.uploads.family, 0, name, impl.pool, impl.commands);
  if (result != VK_SUCCESS) return state.failure(result, "recording '{}'", name);
  const VolkDeviceTable& vk = state.vk();
  auto begin = typed<VkCommandBufferBeginInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO);
  result = vk.vkBeginCommandBuffer(impl.commands, &begin);
  if (result != VK_SUCCESS) return state.failure(result, "recording '{}'", name);
  recordCopy(vk, impl.commands, copy);
  result = vk.vkEndCommandBuffer(impl.commands);
  if (result != VK_SUCCESS) return state.failure(result, "recording '{}'", name);
  return upload;
}

Upload::~Upload() {
  if (!impl_ || !begun_) return;
  DeviceState& state = impl_->owner->state();
  (void)state.waitFor(begun_, state.uploads);
}

Result<void> Upload::submit() {
  DeviceState& state = impl_->owner->state();
  if (begun_) TG_CHECK(state.waitFor(begun_, state.uploads));
  TG_TRY(begun_, state.upload(impl_->commands));
  return {};
}

}  // namespace tg::vulkan
