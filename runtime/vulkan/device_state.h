// SPDX-License-Identifier: Apache-2.0
// The internal state of an open device. Internal to this folder.
#pragma once

#include <atomic>
#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include <volk.h>

#include "runtime/vulkan/handle.h"
#include "runtime/vulkan/instance.h"
#include "runtime/vulkan/probe.h"
#include "runtime/vulkan/statistics.h"

namespace tg::vulkan {

class Pipeline;
struct Copy;

struct LogicalDevice {
  VkDevice raw = VK_NULL_HANDLE;
  VolkDeviceTable vk{};
  LogicalDevice() = default;
  LogicalDevice(const LogicalDevice&) = delete;
  LogicalDevice& operator=(const LogicalDevice&) = delete;
  ~LogicalDevice();
};

/// A queue, and the timeline that counts its submissions.
struct WorkQueue {
  VkQueue raw = VK_NULL_HANDLE;
  uint32_t family = 0;
  Handle<VkSemaphore> timeline;
  uint64_t submitted = 0;  ///< timeline value of the newest submission
};

enum class MemoryKind : uint8_t;

/// One buffer with its own memory.
struct Allocation {
  Handle<VkDeviceMemory> memory;
  Handle<VkBuffer> buffer;
  std::byte* mapped = nullptr;
  int64_t bytes = 0;        ///< requested size
  int64_t capacity = 0;     ///< allocated size, a multiple of 256
  int64_t sharedBytes = 0;  ///< size of the memory, if it is exported
  std::string name;
};

struct DeviceState {
  std::shared_ptr<Instance> instance;
  Probe probe;
  bool stageTransfers = false;
  bool shared = false;      ///< buffers and timelines can be shared with another API
  bool statistics = false;  ///< pipelines are compiled with statistics, which the driver supports
  LogicalDevice device;
  Handle<VkPipelineCache> cache;

  std::mutex queueMutex;  ///< guards the three below
  WorkQueue work;
  WorkQueue
      uploads;  ///< copies from the host beside the other work; without a queue if the device has none for this
  std::vector<std::pair<VkSemaphore, uint64_t>> awaited;  ///< what the next submission of `work` waits for
  std::atomic<bool> lost{false};
  std::mutex abandonedMutex;
  Error abandoned;  ///< why the device was given up (`lost` is then set); empty if the driver lost it
  std::atomic<int64_t> allocatedBytes{0};

  std::mutex transferMutex;  ///< guards the three below
  Handle<VkCommandPool> transferPool;
  VkCommandBuffer transferCommands = VK_NULL_HANDLE;
  Allocation staging;

  std::mutex pipelinesMutex;
  std::unordered_map<std::string, std::weak_ptr<Pipeline>> pipelines;  ///< by content

  const VolkDeviceTable& vk() const { return device.vk; }
  VkDevice raw() const { return device.raw; }

  /// The error for a Vulkan call that failed while `doing` something.
  Error failureOf(VkResult result, const std::string& doing);
  template <class... Args>
  Error failure(VkResult result, fmt::format_string<Args...> format, Args&&... args) {
    return failureOf(result, fmt::format(format, std::forward<Args>(args)...));
  }
  /// Submits the commands and returns the submission's number.
  Result<uint64_t> submit(VkCommandBuffer commands);
  /// Submits copies to the queue for uploads; the next submission waits for them. Returns the number among uploads.
  Result<uint64_t> upload(VkCommandBuffer commands);
  Result<void> waitFor(uint64_t submission) { return waitFor(submission, work); }
  Result<void> waitFor(uint64_t submission, const WorkQueue& queue);
  uint64_t newest();
  /// Records commands that run after all earlier submissions, and waits for them. The caller holds `transferMutex`.
  Result<void> runOnce(const std::function<void(VkCommandBuffer)>& record);

  /// Creates an object that belongs to the device, with a name for tools and messages; `out` owns it.
  template <class T, class Info>
  VkResult make(Handle<T>& out, const Info& info,
                VkResult(VKAPI_PTR* create)(VkDevice, const Info*, const VkAllocationCallbacks*, T*),
                typename Handle<T>::Destroy destroy, VkObjectType type, const std::string& name) {
    T object;
    const VkResult result = create(raw(), &info, nullptr, &object);
    if (result != VK_SUCCESS) return result;
    out = Handle<T>(raw(), object, destroy);
    setName(type, object, name);
    return result;
  }
  template <class T>
  void setName(VkObjectType type, T object, const std::string& name) {
    nameObject(type, uint64_t(object), name);
  }

 private:
  Result<uint64_t> submitTo(WorkQueue& queue, VkCommandBuffer commands,
                            std::span<const std::pair<VkSemaphore, uint64_t>> waits);
  void nameObject(VkObjectType type, uint64_t object, const std::string& name);
};

struct BufferOptions;
/// Allocates uninitialised memory; errors as for `Buffer::create`.
Result<Allocation> allocate(DeviceState& state, const BufferOptions& options);

/// A timeline semaphore that begins at 0. If the device is shared, another API can import it.
Result<Handle<VkSemaphore>> makeTimeline(DeviceState& state, const std::string& name);

/// Makes a pool for a queue family, and a command buffer of it, which the pool owns.
VkResult makeCommands(DeviceState& state, uint32_t family, VkCommandPoolCreateFlags flags,
                      const std::string& name, Handle<VkCommandPool>& pool, VkCommandBuffer& commands);
/// Records a copy between buffers.
void recordCopy(const VolkDeviceTable& vk, VkCommandBuffer commands, const Copy& copy);

/// Records a barrier over all memory, between the given stages and accesses.
void memoryBarrier(const VolkDeviceTable& vk, VkCommandBuffer commands, VkPipelineStageFlags srcStage,
                   VkAccessFlags src, VkPipelineStageFlags dstStage, VkAccessFlags dst);

struct PipelineState {
  Handle<VkDescriptorSetLayout> setLayout;
  Handle<VkPipelineLayout> layout;
  Handle<VkPipeline> pipeline;
};

/// The driver's statistics on a pipeline that was created for this.
std::vector<Statistic> statisticsOf(const DeviceState& state, VkPipeline pipeline);

// Declarations of the KHR extensions for cooperative matrices and bf16. The loader of bundles includes the same text.
#include "runtime/vulkan/khr_types.inc"

}  // namespace tg::vulkan
