// SPDX-License-Identifier: Apache-2.0
// The inside of a pipeline. Internal to this folder.
#pragma once

#include "runtime/vulkan/handle.h"

namespace tg::vulkan {

struct PipelineState {
  Handle<VkDescriptorSetLayout> setLayout;
  Handle<VkPipelineLayout> layout;
  Handle<VkPipeline> pipeline;
};

}  // namespace tg::vulkan
