// SPDX-License-Identifier: Apache-2.0
#include "runtime/vulkan/probe.h"

#include <algorithm>
#include <cctype>
#include <cstring>

#include <fmt/format.h>

#include "runtime/vulkan/device_state.h"

namespace tg::vulkan {

namespace {

#include "runtime/vulkan/device_limits.inc"

/// The first version with timeline semaphores in its core.
constexpr uint32_t neededApi = VK_API_VERSION_1_2;

const char* typeName(VkPhysicalDeviceType type) {
  switch (type) {
  case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: return "discrete";
  case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: return "integrated";
  case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU: return "virtual";
  case VK_PHYSICAL_DEVICE_TYPE_CPU: return "cpu";
  default: return "other";
  }
}

std::string versionString(uint32_t v) {
  return fmt::format("{}.{}.{}", VK_API_VERSION_MAJOR(v), VK_API_VERSION_MINOR(v), VK_API_VERSION_PATCH(v));
}

std::string uuidString(const uint8_t* bytes) {
  std::string text;
  for (uint32_t i = 0; i < VK_UUID_SIZE; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", bytes[i]);
  }
  return text;
}

/// A name of lower-case letters, digits, '.' and single dashes, which never needs quoting.
std::string targetName(const std::string& name) {
  std::string text;
  for (unsigned char c : name) {
    if (std::isalnum(c) || c == '.') {
      text += char(std::tolower(c));
    } else if (!text.empty() && text.back() != '-') {
      text += '-';
    }
  }
  while (!text.empty() && text.back() == '-') text.pop_back();
  return text.empty() ? "device" : text;
}

struct Properties {
  VkPhysicalDeviceProperties2 core{};
  VkPhysicalDeviceIDProperties id{};
  VkPhysicalDeviceMaintenance3Properties allocation{};
  VkPhysicalDeviceSubgroupProperties subgroup{};
  VkPhysicalDeviceDriverProperties driver{};
  VkPhysicalDeviceVulkan13Properties v13{};
  VkPhysicalDeviceShaderSMBuiltinsPropertiesNV nvidia{};
  VkPhysicalDeviceShaderCorePropertiesAMD amd{};
  /// The number of processors that run workgroups concurrently; 0 if the driver does not tell.
  int64_t processors() const {
    return nvidia.shaderSMCount +
           int64_t{amd.shaderEngineCount} * amd.shaderArraysPerEngineCount * amd.computeUnitsPerShaderArray;
  }
};

bool hasExtension(VkPhysicalDevice physical, const char* name) {
  uint32_t count = 0;
  vkEnumerateDeviceExtensionProperties(physical, nullptr, &count, nullptr);
  std::vector<VkExtensionProperties> all(count);
  vkEnumerateDeviceExtensionProperties(physical, nullptr, &count, all.data());
  all.resize(count);
  return std::ranges::any_of(
      all, [&](const VkExtensionProperties& each) { return !std::strcmp(each.extensionName, name); });
}

/// Version 1.3's structure repeats members of the others, and is queried only for those that the others lack.
void queryProperties(VkPhysicalDevice physical, uint32_t api, Properties& p) {
  p.core.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
  p.id.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES;
  p.allocation.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES;
  p.subgroup.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES;
  p.driver.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES;
  p.v13.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_PROPERTIES;
  if (api >= VK_API_VERSION_1_1) {
    p.core.pNext = &p.id;
    p.id.pNext = &p.allocation;
    p.allocation.pNext = &p.subgroup;
  }
  if (api >= VK_API_VERSION_1_2) p.subgroup.pNext = &p.driver;
  if (api >= VK_API_VERSION_1_3) p.driver.pNext = &p.v13;
  auto add = [&](const char* extension, auto& structure, VkStructureType type) {
    if (!hasExtension(physical, extension)) return;
    structure.sType = type;
    structure.pNext = p.core.pNext;
    p.core.pNext = &structure;
  };
  add(VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME, p.nvidia,
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV);
  add(VK_AMD_SHADER_CORE_PROPERTIES_EXTENSION_NAME, p.amd,
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_AMD);
  vkGetPhysicalDeviceProperties2(physical, &p.core);
}

template <class Features>
Features askedFeatures(VkPhysicalDevice physical, Features features) {
  auto core = typed<VkPhysicalDeviceFeatures2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2);
  core.pNext = &features;
  vkGetPhysicalDeviceFeatures2(physical, &core);
  return features;
}

/// The matrix products of subgroups, from the KHR extension or, if the device lacks it, from NVIDIA's. Shaders with
/// matrices also need the Vulkan memory model and f16.
void queryMatrices(Probe& probe, VkInstance instance, bool usable) {
  const VkPhysicalDevice physical = probe.physical;
  std::vector<MatrixProduct>& products = probe.info.limits.products;
  if (usable && hasExtension(physical, kKhrMatrixExtension))
    probe.matricesKhr = askedFeatures(physical, KhrMatrixFeatures{}).matrices;
  if (probe.matricesKhr && hasExtension(physical, kKhrBf16Extension))
    probe.matricesBf16 = askedFeatures(physical, KhrBf16Features{}).matrices;
  if (usable && hasExtension(physical, VK_NV_COOPERATIVE_MATRIX_EXTENSION_NAME)) {
    auto feature = typed<VkPhysicalDeviceCooperativeMatrixFeaturesNV>(
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_NV);
    probe.matricesNv = askedFeatures(physical, feature).cooperativeMatrix;
  }
  if (probe.matricesKhr) {
    auto query = reinterpret_cast<KhrMatrixQuery>(
        vkGetInstanceProcAddr(instance, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR"));
    addProducts(products, physical, query, KhrMatrixProperties{});
    if (!probe.matricesBf16)
      std::erase_if(products, [](const MatrixProduct& each) { return each.operand == "bf16"; });
  } else if (probe.matricesNv) {
    addProducts(products, physical, vkGetPhysicalDeviceCooperativeMatrixPropertiesNV,
                typed<VkCooperativeMatrixPropertiesNV>(VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_NV));
  }
}

/// Queries the features that kernels may use, and records those that the device lacks.
void queryFeatures(Probe& probe, VkInstance instance) {
  Features features(probe.apiVersion);
  const auto& core = features.core.features;
  const auto& v11 = features.v11;
  const auto& v12 = features.v12;
  if (hasExtension(probe.physical, VK_EXT_SHADER_ATOMIC_FLOAT_EXTENSION_NAME)) features.add(features.atomics);
  vkGetPhysicalDeviceFeatures2(probe.physical, &features.core);
  probe.floatAtomics = features.atomics.shaderBufferFloat32AtomicAdd;
  probe.info.float16 = v12.shaderFloat16 && v11.storageBuffer16BitAccess;
  probe.info.int64 = core.shaderInt64;
  probe.int16 = core.shaderInt16;
  probe.deviceScope = v12.vulkanMemoryModelDeviceScope;
  probe.choosesSubgroup = features.v13.subgroupSizeControl;
  queryMatrices(probe, instance, probe.info.float16 && v12.vulkanMemoryModel);
  auto lack = [&](FeatureId id, bool given) { probe.info.limits.lacks[static_cast<size_t>(id)] = !given; };
  lack(FeatureId::float16, probe.info.float16);
  lack(FeatureId::int64, probe.info.int64);
  lack(FeatureId::int16, probe.int16);
  lack(FeatureId::halfStorage, v11.storageBuffer16BitAccess);
  lack(FeatureId::memoryModel, probe.matricesNv || probe.matricesKhr);  // enabled only for matrices
  lack(FeatureId::matricesNv, probe.matricesNv);
  lack(FeatureId::matricesKhr, probe.matricesKhr);
  lack(FeatureId::matricesBf16, probe.matricesBf16);
  lack(FeatureId::floatAtomics, probe.floatAtomics);
}

/// Finds the first queue family with compute. If graphics and compute share a family, drivers list it first, and it has
/// all features. Transfers are allowed on every such family. Also finds the first family that only transfers: its queues
/// are copy engines, which work beside the others.
bool findQueueFamilies(Probe& probe) {
  uint32_t count = 0;
  vkGetPhysicalDeviceQueueFamilyProperties(probe.physical, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  vkGetPhysicalDeviceQueueFamilyProperties(probe.physical, &count, families.data());
  constexpr VkQueueFlags kBesides = VK_QUEUE_SPARSE_BINDING_BIT | VK_QUEUE_PROTECTED_BIT;
  bool computes = false;
  for (uint32_t i = 0; i < count; ++i) {
    const VkQueueFlags flags = families[i].queueFlags;
    if ((flags & ~kBesides) == VK_QUEUE_TRANSFER_BIT && !probe.uploadFamily) probe.uploadFamily = i;
    if (!(flags & VK_QUEUE_COMPUTE_BIT) || std::exchange(computes, true)) continue;
    probe.queueFamily = i;
    probe.timestampBits = families[i].timestampValidBits;
  }
  return computes;
}

/// The size of the largest device-local heap (-1 if there is none), and its free bytes from the driver, or -1.
std::pair<int, int64_t> largestHeap(VkPhysicalDevice physical, VkPhysicalDeviceMemoryProperties* properties) {
  auto free = typed<VkPhysicalDeviceMemoryBudgetPropertiesEXT>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT);
  auto memory =
      typed<VkPhysicalDeviceMemoryProperties2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2);
  const bool says = hasExtension(physical, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
  if (says) memory.pNext = &free;
  vkGetPhysicalDeviceMemoryProperties2(physical, &memory);
  *properties = memory.memoryProperties;
  int largest = -1;
  for (uint32_t i = 0; i < properties->memoryHeapCount; ++i) {
    const VkMemoryHeap& heap = properties->memoryHeaps[i];
    if (!(heap.flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT)) continue;
    if (largest < 0 || heap.size > properties->memoryHeaps[largest].size) largest = int(i);
  }
  const bool left = says && largest >= 0 && free.heapBudget[largest] > free.heapUsage[largest];
  return {largest, left ? int64_t(free.heapBudget[largest] - free.heapUsage[largest]) : -1};
}

void fillMemory(Probe& probe) {
  const auto [heap, free] = largestHeap(probe.physical, &probe.memory);
  if (heap >= 0) probe.info.heapBytes = int64_t(probe.memory.memoryHeaps[heap].size);
  probe.info.freeBytes = free >= 0 ? free : probe.info.heapBytes;
  const VkMemoryPropertyFlags both = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT |
                                     VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                                     VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  bool mappable = false;
  for (uint32_t i = 0; i < probe.memory.memoryTypeCount; ++i) {
    mappable |= (probe.memory.memoryTypes[i].propertyFlags & both) == both;
  }
  probe.info.unifiedMemory = mappable && (probe.info.type == "cpu" || probe.info.type == "integrated");
}

/// The largest buffer with an allocation of its own, regardless of how much memory there is.
int64_t largestBuffer(const Properties& p) {
  VkDeviceSize most = VkDeviceSize{1} << 50;  // some drivers state no limit
  for (VkDeviceSize limit : {p.allocation.maxMemoryAllocationSize, p.v13.maxBufferSize})
    if (limit) most = std::min(most, limit);
  return int64_t(most);
}

/// The number of invocations that keep this many processors busy, at 512 each. It is rounded down to three binary
/// digits: extents of tensors are round numbers, and 128 of 132 processors are close enough for choosing how often to cut.
int64_t busyAt(int64_t processors) {
  int64_t digits = processors, scale = 512;
  for (; digits >= 8; digits /= 2) scale *= 2;
  return digits * scale;
}

void fillTarget(Probe& probe, const Properties& p) {
  const Limits& has = probe.info.limits;
  Target& t = probe.info.target;
  t.name = targetName(probe.info.name);
  setLimits(t, has);
  t.allocation = largestBuffer(p) / t.alignment * t.alignment;
  t.subgroup = t.subgroups && has.subgroupMost ? p.subgroup.subgroupSize : 1;
  const bool cpu = probe.info.type == "cpu";
  t.reads = cpu ? "texel" : "storage";
  t.reduce = cpu ? "lane" : "workgroup";
  t.matmul = cpu ? "register" : "shared";
  t.workgroup = std::min<int64_t>(cpu ? 64 : 128, t.maxInvocations);
  const int64_t told = p.processors();
  t.processors = cpu ? 1 : told > 0 ? told : 128;
  t.parallel = cpu ? 64 : busyAt(t.processors);
  t.streamScores = cpu ? 1 << 19 : 1 << 29;
}

/// Whether buffers and timelines can be exported as file descriptors.
bool sharesByDescriptor(VkPhysicalDevice physical, uint32_t api) {
  if (api < neededApi || !hasExtension(physical, VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME) ||
      !hasExtension(physical, VK_KHR_EXTERNAL_SEMAPHORE_FD_EXTENSION_NAME))
    return false;
  auto type = typed<VkSemaphoreTypeCreateInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO);
  type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
  auto asked =
      typed<VkPhysicalDeviceExternalSemaphoreInfo>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_SEMAPHORE_INFO);
  asked.pNext = &type;
  asked.handleType = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT;
  auto can = typed<VkExternalSemaphoreProperties>(VK_STRUCTURE_TYPE_EXTERNAL_SEMAPHORE_PROPERTIES);
  vkGetPhysicalDeviceExternalSemaphoreProperties(physical, &asked, &can);
  return can.externalSemaphoreFeatures & VK_EXTERNAL_SEMAPHORE_FEATURE_EXPORTABLE_BIT;
}

/// Whether the program's memory, in pages of 64 KiB, can become a buffer.
bool takesHostMemory(VkPhysicalDevice physical, uint32_t api) {
  if (api < neededApi || !hasExtension(physical, VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME)) return false;
  auto core = typed<VkPhysicalDeviceProperties2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2);
  auto host = typed<VkPhysicalDeviceExternalMemoryHostPropertiesEXT>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT);
  core.pNext = &host;
  vkGetPhysicalDeviceProperties2(physical, &core);
  return kHostPage % host.minImportedHostPointerAlignment == 0;
}

bool tellsStatistics(VkPhysicalDevice physical) {
  if (!hasExtension(physical, VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME)) return false;
  auto feature = typed<VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR);
  return askedFeatures(physical, feature).pipelineExecutableInfo;
}

/// Collects everything about a physical device. A device that cannot be used gets `unusable` set instead of an error,
/// so that listings can show it.
Probe probeDevice(VkInstance instance, VkPhysicalDevice physical, int index) {
  Probe probe;
  probe.physical = physical;
  VkPhysicalDeviceProperties base;
  vkGetPhysicalDeviceProperties(physical, &base);
  Properties p;
  p.core.properties = base;
  if (base.apiVersion >= VK_API_VERSION_1_1) queryProperties(physical, base.apiVersion, p);
  probe.limits = base.limits;
  probe.apiVersion = base.apiVersion;
  probe.vendorId = base.vendorID;
  probe.deviceId = base.deviceID;
  std::memcpy(probe.cacheUuid, base.pipelineCacheUUID, VK_UUID_SIZE);

  DeviceInfo& info = probe.info;
  info.index = index;
  info.name = base.deviceName;
  info.type = typeName(base.deviceType);
  info.driver = fmt::format("{} {}", p.driver.driverName, p.driver.driverInfo);
  info.api = versionString(base.apiVersion);
  info.uuid = uuidString(p.id.deviceUUID);
  // Mesa's CPU device has the same pipeline cache UUID in all versions, so the key has the driver's version.
  info.cacheKey = fmt::format("{:04x}-{:04x}-{:08x}", base.vendorID, base.deviceID, base.driverVersion);
  for (const uint8_t byte : base.pipelineCacheUUID) info.cacheKey += fmt::format("{:02x}", byte);
  fillMemory(probe);
  info.maxAllocationBytes = std::min(info.heapBytes, largestBuffer(p));
  probe.minSubgroup = p.v13.minSubgroupSize ? p.v13.minSubgroupSize : p.subgroup.subgroupSize;
  probe.maxSubgroup = p.v13.maxSubgroupSize ? p.v13.maxSubgroupSize : p.subgroup.subgroupSize;
  if (base.apiVersion < neededApi) {
    info.unusable = fmt::format("it offers Vulkan {} and 1.2 is needed", info.api);
  } else if (!findQueueFamilies(probe)) {
    info.unusable = "it has no compute queue";
  } else {
    queryFeatures(probe, instance);
  }
  info.timestamps = probe.timestampBits != 0;
  info.shares = sharesByDescriptor(physical, base.apiVersion);
  info.takesHostMemory = takesHostMemory(physical, base.apiVersion);
  info.statistics = info.unusable.empty() && tellsStatistics(physical);
  readLimits(info.limits, probe.limits, p.driver.driverID, probe.minSubgroup, probe.maxSubgroup,
             probe.choosesSubgroup);
  info.limits.lacks[static_cast<size_t>(FeatureId::subgroups)] = !hasSubgroupOps(p.subgroup);
  fillTarget(probe, p);
  return probe;
}

}  // namespace

Result<std::vector<Probe>> probeDevices(VkInstance instance) {
  uint32_t count = 0;
  VkResult result = vkEnumeratePhysicalDevices(instance, &count, nullptr);
  std::vector<VkPhysicalDevice> physical(count);
  if (result == VK_SUCCESS) result = vkEnumeratePhysicalDevices(instance, &count, physical.data());
  if (result != VK_SUCCESS && result != VK_INCOMPLETE) {
    return fail("cannot list the Vulkan devices: {}", resultName(result));
  }
  physical.resize(count);
  std::vector<Probe> probes;
  for (uint32_t i = 0; i < count; ++i) probes.push_back(probeDevice(instance, physical[i], int(i)));
  return probes;
}

int64_t freeBytesOf(const Probe& probe, int64_t held) {
  VkPhysicalDeviceMemoryProperties properties;
  const int64_t free = largestHeap(probe.physical, &properties).second;
  return free >= 0 ? free : probe.info.heapBytes - held;
}

}  // namespace tg::vulkan
