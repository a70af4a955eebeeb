// SPDX-License-Identifier: Apache-2.0
// The properties and features of a physical device. Internal to this folder.
#pragma once

#include <optional>
#include <vector>

#include "runtime/vulkan/device.h"
#include "runtime/vulkan/handle.h"

namespace tg::vulkan {

/// The alignment and size granule of program memory that becomes a buffer; no driver requires more.
constexpr uint64_t kHostPage = uint64_t{64} << 10;

struct Probe {
  VkPhysicalDevice physical = VK_NULL_HANDLE;
  DeviceInfo info;
  VkPhysicalDeviceLimits limits{};
  VkPhysicalDeviceMemoryProperties memory{};
  uint32_t apiVersion = 0, vendorId = 0, deviceId = 0;
  uint8_t cacheUuid[VK_UUID_SIZE] = {};
  uint32_t minSubgroup = 1, maxSubgroup = 1;
  bool choosesSubgroup = false;  ///< a pipeline may require a subgroup size between the two
  bool int16 = false;
  bool deviceScope = false;   ///< device-scope atomics, if the Vulkan memory model is on
  bool matricesNv = false;    ///< VK_NV_cooperative_matrix is enabled
  bool matricesKhr = false;   ///< VK_KHR_cooperative_matrix is enabled
  bool matricesBf16 = false;  ///< VK_KHR_shader_bfloat16 with matrices of bf16 is enabled
  bool floatAtomics = false;  ///< VK_EXT_shader_atomic_float with f32 additions to storage buffers
  uint32_t queueFamily = 0;
  std::optional<uint32_t> uploadFamily = {};  ///< queues that transfer and do nothing else
  uint32_t timestampBits = 0;
};

/// The chain of feature structures that are queried, and with which a device is opened.
struct Features {
  explicit Features(uint32_t apiVersion) {
    core.pNext = &v11;
    v11.pNext = &v12;
    if (apiVersion >= VK_API_VERSION_1_3) v12.pNext = &v13;
  }
  Features(const Features&) = delete;
  Features& operator=(const Features&) = delete;
  /// Links a structure into the chain, which keeps its address.
  template <class T>
  void add(T& structure) {
    structure.pNext = core.pNext;
    core.pNext = &structure;
  }

  VkPhysicalDeviceFeatures2 core =
      typed<VkPhysicalDeviceFeatures2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2);
  VkPhysicalDeviceVulkan11Features v11 =
      typed<VkPhysicalDeviceVulkan11Features>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES);
  VkPhysicalDeviceVulkan12Features v12 =
      typed<VkPhysicalDeviceVulkan12Features>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES);
  VkPhysicalDeviceVulkan13Features v13 =
      typed<VkPhysicalDeviceVulkan13Features>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES);
  /// Linked into the chain only when it is needed.
  VkPhysicalDeviceShaderAtomicFloatFeaturesEXT atomics = typed<VkPhysicalDeviceShaderAtomicFloatFeaturesEXT>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_ATOMIC_FLOAT_FEATURES_EXT);
};

/// All physical devices of an instance, in the drivers' order.
Result<std::vector<Probe>> probeDevices(VkInstance instance);

/// Free bytes of the device's largest heap: from the driver, or if it does not say, the heap's size less `held`.
int64_t freeBytesOf(const Probe& probe, int64_t held);

}  // namespace tg::vulkan
