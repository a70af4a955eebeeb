// SPDX-License-Identifier: Apache-2.0
// What a shader asks of a device. Internal to this folder.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "runtime/vulkan/probe.h"

namespace tg::vulkan {

/// Why a device cannot run whole SPIR-V, by the capabilities its words declare: "it needs f32 atomic
/// additions (AtomicFloat32AddEXT), which the device lacks"; empty when it can. Drivers may crash on others.
std::string missingFeature(const Probe& probe, std::span<const uint32_t> code);

}  // namespace tg::vulkan
