// SPDX-License-Identifier: Apache-2.0
#include "runtime/vulkan/descriptors.h"

#include <fmt/format.h>

#include "ir/divide.h"
#include "runtime/vulkan/command_check.h"
#include "runtime/vulkan/device_state.h"

namespace tg::vulkan {

namespace {

VkFormat formatOf(BindingKind kind) {
  switch (kind) {
  case BindingKind::storage: return VK_FORMAT_UNDEFINED;
  case BindingKind::texelF32: return VK_FORMAT_R32_SFLOAT;
  case BindingKind::texelF32x4: return VK_FORMAT_R32G32B32A32_SFLOAT;
  case BindingKind::texelI32: return VK_FORMAT_R32_SINT;
  case BindingKind::texelI32x4: return VK_FORMAT_R32G32B32A32_SINT;
  case BindingKind::texelU32: return VK_FORMAT_R32_UINT;
  case BindingKind::texelU32x4: return VK_FORMAT_R32G32B32A32_UINT;
  }
  return VK_FORMAT_UNDEFINED;
}

}  // namespace

Result<void> Descriptors::create(DeviceState& state, const std::vector<Command>& commands,
                                 const std::string& name) {
  std::vector<const Dispatch*> dispatches;
  for (const Command& command : commands) {
    if (auto* dispatch = std::get_if<Dispatch>(&command)) dispatches.push_back(dispatch);
  }
  if (dispatches.empty()) return {};
  TG_CHECK(createPool(state, dispatches, name));
  TG_CHECK(allocateSets(state, dispatches));
  for (size_t i = 0; i < dispatches.size(); ++i) TG_CHECK(write(state, *dispatches[i], sets_[i]));
  return {};
}

Result<void> Descriptors::createPool(DeviceState& state, const std::vector<const Dispatch*>& dispatches,
                                     const std::string& name) {
  uint32_t storage = 0, texels = 0;
  for (const Dispatch* dispatch : dispatches) {
    for (BindingKind kind : dispatch->pipeline->bindings())
      ++(kind == BindingKind::storage ? storage : texels);
  }
  std::vector<VkDescriptorPoolSize> sizes;
  if (storage) sizes.push_back({VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, storage});
  if (texels) sizes.push_back({VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER, texels});
  // Kernels without bindings still have a set, and some drivers reject an empty pool.
  if (sizes.empty()) sizes.push_back({VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1});
  auto info = typed<VkDescriptorPoolCreateInfo>(VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO);
  info.maxSets = uint32_t(dispatches.size());
  info.poolSizeCount = uint32_t(sizes.size());
  info.pPoolSizes = sizes.data();
  VkResult result = state.make(pool_, info, state.vk().vkCreateDescriptorPool,
                               state.vk().vkDestroyDescriptorPool, VK_OBJECT_TYPE_DESCRIPTOR_POOL, name);
  if (result != VK_SUCCESS) return state.failure(result, "creating the descriptors of '{}'", name);
  return {};
}

Result<void> Descriptors::allocateSets(DeviceState& state, const std::vector<const Dispatch*>& dispatches) {
  std::vector<VkDescriptorSetLayout> layouts;
  for (const Dispatch* dispatch : dispatches) layouts.push_back(dispatch->pipeline->state().setLayout.get());
  sets_.resize(dispatches.size());
  auto info = typed<VkDescriptorSetAllocateInfo>(VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO);
  info.descriptorPool = pool_.get();
  info.descriptorSetCount = uint32_t(layouts.size());
  info.pSetLayouts = layouts.data();
  VkResult result = state.vk().vkAllocateDescriptorSets(state.raw(), &info, sets_.data());
  if (result != VK_SUCCESS) return state.failure(result, "allocating descriptor sets");
  for (size_t i = 0; i < sets_.size(); ++i) {
    state.setName(VK_OBJECT_TYPE_DESCRIPTOR_SET, sets_[i], labelOf(*dispatches[i]));
  }
  return {};
}

Result<VkBufferView> Descriptors::view(DeviceState& state, const Binding& binding, BindingKind kind,
                                       const std::string& label) {
  const VkBuffer buffer = binding.buffer->allocation().buffer.get();
  const int64_t texel = texelBytes(kind);
  const int64_t bytes = alignTo(bytesOf(binding), texel);
  Handle<VkBufferView>& shared = views_[{buffer, binding.offset, bytes, kind}];
  if (shared) return shared.get();
  auto info = typed<VkBufferViewCreateInfo>(VK_STRUCTURE_TYPE_BUFFER_VIEW_CREATE_INFO);
  info.buffer = buffer;
  info.format = formatOf(kind);
  info.offset = VkDeviceSize(binding.offset);
  info.range = VkDeviceSize(bytes);
  VkResult result =
      state.make(shared, info, state.vk().vkCreateBufferView, state.vk().vkDestroyBufferView,
                 VK_OBJECT_TYPE_BUFFER_VIEW, fmt::format("{}+{}", binding.buffer->name(), binding.offset));
  if (result != VK_SUCCESS) {
    return state.failure(result, "viewing buffer '{}' as texels for '{}'", binding.buffer->name(), label);
  }
  return shared.get();
}

/// The size of a binding, rounded up to whole words: the last of an odd number of 16-bit elements has a word to itself.
static int64_t wholeWords(const Binding& binding) {
  return std::min((bytesOf(binding) + 3) / 4 * 4, binding.buffer->bytes() - binding.offset);
}

Result<void> Descriptors::write(DeviceState& state, const Dispatch& dispatch, VkDescriptorSet set) {
  const auto& kinds = dispatch.pipeline->bindings();
  std::vector<VkDescriptorBufferInfo> buffers(kinds.size());
  std::vector<VkBufferView> views(kinds.size());
  std::vector<VkWriteDescriptorSet> writes;
  for (size_t i = 0; i < kinds.size(); ++i) {
    const Binding& binding = dispatch.bindings[i];
    auto one = typed<VkWriteDescriptorSet>(VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET);
    one.dstSet = set;
    one.dstBinding = uint32_t(i);
    one.descriptorCount = 1;
    if (kinds[i] == BindingKind::storage) {
      one.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
      buffers[i] = {binding.buffer->allocation().buffer.get(), VkDeviceSize(binding.offset),
                    VkDeviceSize(wholeWords(binding))};
      one.pBufferInfo = &buffers[i];
    } else {
      one.descriptorType = VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER;
      TG_TRY(views[i], view(state, binding, kinds[i], labelOf(dispatch)));
      one.pTexelBufferView = &views[i];
    }
    writes.push_back(one);
  }
  state.vk().vkUpdateDescriptorSets(state.raw(), uint32_t(writes.size()), writes.data(), 0, nullptr);
  return {};
}

}  // namespace tg::vulkan
