// SPDX-License-Identifier: Apache-2.0
#include "runtime/vulkan/capabilities.h"

#include <fmt/format.h>

namespace tg::vulkan {

namespace {

constexpr size_t headerWords = 5;
constexpr uint32_t opCapability = 17;

struct Capability {
  uint32_t number;  ///< of the SPIR-V specification
  const char* name;
  const char* feature;
  bool offered;
};

/// Of those not named here, a device has what every Vulkan device has.
std::vector<Capability> capabilitiesOf(const Probe& probe) {
  const Target& target = probe.info.target;
  const bool half = target.halfStorage;
  const char* subgroups = "subgroup operations";
  return {
      {9, "Float16", "f16 arithmetic", probe.info.float16},
      {11, "Int64", "64-bit integers", probe.info.int64},
      {22, "Int16", "16-bit integers", probe.int16},
      {61, "GroupNonUniform", subgroups, target.subgroups},
      {63, "GroupNonUniformArithmetic", subgroups, target.subgroups},
      {64, "GroupNonUniformBallot", subgroups, target.subgroups},
      {65, "GroupNonUniformShuffle", subgroups, target.subgroups},
      {4433, "StorageBuffer16BitAccess", "f16 storage", half},
      {5345, "VulkanMemoryModel", "matrices of subgroups", probe.matricesNv || probe.matricesKhr},
      {5357, "CooperativeMatrixNV", "matrices of subgroups", probe.matricesNv},
      {6022, "CooperativeMatrixKHR", "matrices of subgroups", probe.matricesKhr},
      {6033, "AtomicFloat32AddEXT", "f32 atomic additions", probe.floatAtomics},
  };
}

/// Matrix, Shader, Sampled1D, Image1D, SampledBuffer, ImageBuffer, ImageQuery.
bool everyDeviceHas(uint32_t capability) {
  return capability <= 1 || (capability >= 43 && capability <= 47) || capability == 50;
}

}  // namespace

std::string missingFeature(const Probe& probe, std::span<const uint32_t> code) {
  const std::vector<Capability> known = capabilitiesOf(probe);
  // Capabilities stand before everything else.
  for (size_t at = headerWords; at + 1 < code.size() && (code[at] & 0xffff) == opCapability; at += 2) {
    const uint32_t wanted = code[at + 1];
    if (everyDeviceHas(wanted)) continue;
    const Capability* found = nullptr;
    for (const Capability& each : known)
      if (each.number == wanted) found = &each;
    if (!found)
      return fmt::format("it needs SPIR-V capability {}, which no kernel of this runtime uses", wanted);
    if (!found->offered)
      return fmt::format("it needs {} ({}), which the device lacks", found->feature, found->name);
  }
  return "";
}

}  // namespace tg::vulkan
