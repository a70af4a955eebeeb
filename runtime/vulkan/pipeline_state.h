// SPDX-License-Identifier: Apache-2.0
// The internal state of a pipeline. Internal to this folder.
#pragma once

#include <vector>

#include "runtime/vulkan/handle.h"
#include "runtime/vulkan/statistics.h"

namespace tg::vulkan {

struct DeviceState;

struct PipelineState {
  Handle<VkDescriptorSetLayout> setLayout;
  Handle<VkPipelineLayout> layout;
  Handle<VkPipeline> pipeline;
};

/// The driver's statistics on a pipeline that was created for this.
std::vector<Statistic> statisticsOf(const DeviceState& state, VkPipeline pipeline);

}  // namespace tg::vulkan
