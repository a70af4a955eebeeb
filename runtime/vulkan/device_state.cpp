// SPDX-License-Identifier: Apache-2.0
#include "runtime/vulkan/device_state.h"

#include <chrono>
#include <thread>

#include "runtime/vulkan/recording.h"

namespace tg::vulkan {

LogicalDevice::~LogicalDevice() {
  if (!raw) return;
  vk.vkDestroyDevice(raw, nullptr);
  countHandles(-1);
}

Error DeviceState::failureOf(VkResult result, const std::string& doing) {
  const std::string& name = probe.info.name;
  if (std::lock_guard lock(abandonedMutex); !abandoned.empty()) return abandoned;
  if (result == VK_ERROR_DEVICE_LOST) {
    lost = true;
    return fail("the device {} was lost while {} (VK_ERROR_DEVICE_LOST): its driver reset it, most often "
                "because a kernel ran too long or accessed memory outside of its buffers; its contents are "
                "lost, and it must be opened again",
                name, doing);
  }
  if (result == VK_ERROR_OUT_OF_DEVICE_MEMORY || result == VK_ERROR_OUT_OF_HOST_MEMORY) {
    return fail("the device {} ran out of memory while {} ({}): buffers hold {} of its {} bytes", name, doing,
                resultName(result), allocatedBytes.load(), probe.info.heapBytes);
  }
  return fail("the device {} failed while {}: {}", name, doing, resultName(result));
}

Result<uint64_t> DeviceState::submitTo(WorkQueue& queue, VkCommandBuffer commands,
                                       std::span<const std::pair<VkSemaphore, uint64_t>> waits) {
  if (lost) return failure(VK_ERROR_DEVICE_LOST, "submitting commands");
  const uint64_t value = queue.submitted + 1;
  const VkSemaphore semaphore = queue.timeline.get();
  auto values = typed<VkTimelineSemaphoreSubmitInfo>(VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO);
  values.signalSemaphoreValueCount = 1;
  values.pSignalSemaphoreValues = &value;
  auto info = typed<VkSubmitInfo>(VK_STRUCTURE_TYPE_SUBMIT_INFO);
  info.pNext = &values;
  std::vector<VkSemaphore> awaitedSemaphores;
  std::vector<uint64_t> awaitedValues;
  for (const auto& [each, reached] : waits) {
    awaitedSemaphores.push_back(each);
    awaitedValues.push_back(reached);
  }
  const std::vector<VkPipelineStageFlags> stages(waits.size(), VK_PIPELINE_STAGE_ALL_COMMANDS_BIT);
  values.waitSemaphoreValueCount = info.waitSemaphoreCount = static_cast<uint32_t>(waits.size());
  values.pWaitSemaphoreValues = awaitedValues.data();
  info.pWaitSemaphores = awaitedSemaphores.data();
  info.pWaitDstStageMask = stages.data();
  info.commandBufferCount = 1;
  info.pCommandBuffers = &commands;
  info.signalSemaphoreCount = 1;
  info.pSignalSemaphores = &semaphore;
  VkResult result = vk().vkQueueSubmit(queue.raw, 1, &info, VK_NULL_HANDLE);
  if (result != VK_SUCCESS) return failure(result, "submitting commands");
  queue.submitted = value;
  return value;
}

Result<uint64_t> DeviceState::submit(VkCommandBuffer commands) {
  std::lock_guard lock(queueMutex);
  TG_TRY(const uint64_t value, submitTo(work, commands, awaited));
  awaited.clear();
  return value;
}

Result<uint64_t> DeviceState::upload(VkCommandBuffer commands) {
  std::lock_guard lock(queueMutex);
  TG_TRY(const uint64_t value, submitTo(uploads, commands, {}));
  awaited.emplace_back(uploads.timeline.get(), value);
  return value;
}

Result<void> DeviceState::waitFor(uint64_t submission, const WorkQueue& queue) {
  if (lost) return failure(VK_ERROR_DEVICE_LOST, "waiting for commands");
  const VkSemaphore semaphore = queue.timeline.get();
  // Waking a thread takes up to 0.2 ms, a fifth of a small model's step, so this thread polls: without pause for 3 ms,
  // then every 20 us up to a second. A CPU device needs the core for itself.
  if (probe.info.type != "cpu") {
    using Clock = std::chrono::steady_clock;
    constexpr auto kAllTheTime = std::chrono::milliseconds(3), kNowAndThen = std::chrono::milliseconds(1000);
    const auto start = Clock::now();
    for (uint64_t reached = 0; Clock::now() - start < kNowAndThen;) {
      VkResult polled = vk().vkGetSemaphoreCounterValue(raw(), semaphore, &reached);
      if (polled != VK_SUCCESS) return failure(polled, "waiting for commands");
      if (lost) return failure(VK_ERROR_DEVICE_LOST, "waiting for commands");
      if (reached >= submission) return {};
      if (Clock::now() - start > kAllTheTime) std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
  auto info = typed<VkSemaphoreWaitInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO);
  info.semaphoreCount = 1;
  info.pSemaphores = &semaphore;
  info.pValues = &submission;
  // Wait in short turns, so that the wait ends if the device is given up.
  constexpr uint64_t kTurn = 100'000'000;  // nanoseconds
  VkResult result = VK_TIMEOUT;
  while (result == VK_TIMEOUT && !lost) result = vk().vkWaitSemaphores(raw(), &info, kTurn);
  if (lost) result = VK_ERROR_DEVICE_LOST;
  if (result != VK_SUCCESS) return failure(result, "waiting for commands");
  return {};
}

Result<Handle<VkSemaphore>> makeTimeline(DeviceState& state, const std::string& name) {
  const VolkDeviceTable& vk = state.vk();
  auto type = typed<VkSemaphoreTypeCreateInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO);
  type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
  auto shares = typed<VkExportSemaphoreCreateInfo>(VK_STRUCTURE_TYPE_EXPORT_SEMAPHORE_CREATE_INFO);
  shares.handleTypes = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT;
  if (state.shared) type.pNext = &shares;
  auto info = typed<VkSemaphoreCreateInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO);
  info.pNext = &type;
  Handle<VkSemaphore> semaphore;
  VkResult result = state.make(semaphore, info, vk.vkCreateSemaphore, vk.vkDestroySemaphore,
                               VK_OBJECT_TYPE_SEMAPHORE, name);
  if (result != VK_SUCCESS) return state.failure(result, "making the semaphore of {}", name);
  return semaphore;
}

uint64_t DeviceState::newest() {
  std::lock_guard lock(queueMutex);
  return work.submitted;
}

VkResult makeCommands(DeviceState& state, uint32_t family, VkCommandPoolCreateFlags flags,
                      const std::string& name, Handle<VkCommandPool>& pool, VkCommandBuffer& commands) {
  const VolkDeviceTable& vk = state.vk();
  auto poolInfo = typed<VkCommandPoolCreateInfo>(VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO);
  poolInfo.flags = flags;
  poolInfo.queueFamilyIndex = family;
  VkResult result = state.make(pool, poolInfo, vk.vkCreateCommandPool, vk.vkDestroyCommandPool,
                               VK_OBJECT_TYPE_COMMAND_POOL, name);
  if (result != VK_SUCCESS) return result;
  auto info = typed<VkCommandBufferAllocateInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO);
  info.commandPool = pool.get();
  info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  info.commandBufferCount = 1;
  result = vk.vkAllocateCommandBuffers(state.raw(), &info, &commands);
  if (result == VK_SUCCESS) state.setName(VK_OBJECT_TYPE_COMMAND_BUFFER, commands, name);
  return result;
}

void recordCopy(const VolkDeviceTable& vk, VkCommandBuffer commands, const Copy& copy) {
  const VkBufferCopy region{VkDeviceSize(copy.sourceOffset), VkDeviceSize(copy.targetOffset),
                            VkDeviceSize(copy.bytes)};
  vk.vkCmdCopyBuffer(commands, copy.source->allocation().buffer.get(), copy.target->allocation().buffer.get(),
                     1, &region);
}

void memoryBarrier(const VolkDeviceTable& vk, VkCommandBuffer commands, VkPipelineStageFlags srcStage,
                   VkAccessFlags src, VkPipelineStageFlags dstStage, VkAccessFlags dst) {
  auto barrier = typed<VkMemoryBarrier>(VK_STRUCTURE_TYPE_MEMORY_BARRIER);
  barrier.srcAccessMask = src;
  barrier.dstAccessMask = dst;
  vk.vkCmdPipelineBarrier(commands, srcStage, dstStage, 0, 1, &barrier, 0, nullptr, 0, nullptr);
}

Result<void> DeviceState::runOnce(const std::function<void(VkCommandBuffer)>& record) {
  auto begin = typed<VkCommandBufferBeginInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO);
  begin.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
  VkResult result = vk().vkBeginCommandBuffer(transferCommands, &begin);
  if (result != VK_SUCCESS) return failure(result, "recording a transfer");
  const VkPipelineStageFlags work = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
  const VkAccessFlags writes = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
  memoryBarrier(vk(), transferCommands, work, writes, VK_PIPELINE_STAGE_TRANSFER_BIT,
                VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT);
  record(transferCommands);
  memoryBarrier(vk(), transferCommands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT,
                VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
  result = vk().vkEndCommandBuffer(transferCommands);
  if (result != VK_SUCCESS) return failure(result, "recording a transfer");
  TG_TRY(const uint64_t submission, submit(transferCommands));
  return waitFor(submission);
}

void DeviceState::nameObject(VkObjectType type, uint64_t object, const std::string& name) {
  if (!instance->debugUtils()) return;
  auto info = typed<VkDebugUtilsObjectNameInfoEXT>(VK_STRUCTURE_TYPE_DEBUG_UTILS_OBJECT_NAME_INFO_EXT);
  info.objectType = type;
  info.objectHandle = object;
  info.pObjectName = name.c_str();
  vkSetDebugUtilsObjectNameEXT(raw(), &info);
}

}  // namespace tg::vulkan
