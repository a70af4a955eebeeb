// SPDX-License-Identifier: Apache-2.0
// The inside of a pipeline. Internal to this folder.
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

/// What the driver tells of a pipeline that was made to be asked.
std::vector<Statistic> statisticsOf(const DeviceState& state, VkPipeline pipeline);

}  // namespace tg::vulkan
