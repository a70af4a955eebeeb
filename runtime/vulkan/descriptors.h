// SPDX-License-Identifier: Apache-2.0
// The descriptor sets and texel views of a recording's dispatches. Internal to this folder.
#pragma once

#include <map>
#include <tuple>

#include "runtime/vulkan/device_state.h"
#include "runtime/vulkan/recording.h"

namespace tg::vulkan {

/// Creates and writes all descriptor sets once, before recording; they never change after that.
class Descriptors {
 public:
  /// One set per dispatch, in order. The commands have been checked.
  Result<void> create(DeviceState& state, const std::vector<Command>& commands, const std::string& name);
  VkDescriptorSet set(size_t dispatch) const { return sets_[dispatch]; }

 private:
  Result<void> createPool(DeviceState& state, const std::vector<const Dispatch*>& dispatches,
                          const std::string& name);
  Result<void> allocateSets(DeviceState& state, const std::vector<const Dispatch*>& dispatches);
  Result<VkBufferView> view(DeviceState& state, const Binding& binding, BindingKind kind,
                            const std::string& label);
  Result<void> write(DeviceState& state, const Dispatch& dispatch, VkDescriptorSet set);

  /// Equal views are shared: many dispatches may read the same weight.
  std::map<std::tuple<VkBuffer, int64_t, int64_t, BindingKind>, Handle<VkBufferView>> views_;
  Handle<VkDescriptorPool> pool_;
  std::vector<VkDescriptorSet> sets_;
};

}  // namespace tg::vulkan
