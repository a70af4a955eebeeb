// SPDX-License-Identifier: Apache-2.0
#include "runtime/vulkan/command_check.h"

#include <fmt/format.h>

#include "ir/divide.h"
#include "ir/text.h"
#include "runtime/vulkan/device_state.h"

namespace tg::vulkan {

const std::string& labelOf(const Dispatch& dispatch) {
  return dispatch.label.empty() ? dispatch.pipeline->name() : dispatch.label;
}

int64_t bytesOf(const Binding& binding) {
  return binding.bytes >= 0 ? binding.bytes : binding.buffer->bytes() - binding.offset;
}

namespace {

Result<void> checkRange(Device& device, const std::string& who, const Buffer* buffer, int64_t offset,
                        int64_t bytes) {
  if (!buffer || &buffer->device() != &device) return fail("{} names no buffer of this device", who);
  if (offset >= 0 && bytes >= 0 && offset <= buffer->bytes() && bytes <= buffer->bytes() - offset) return {};
  return fail("{} takes {} bytes at byte {}, outside buffer '{}' of {} bytes", who, bytes, offset,
              buffer->name(), buffer->bytes());
}

Result<void> checkAlignment(const std::string& who, int64_t offset, int64_t alignment, const char* limit) {
  if (offset % alignment == 0) return {};
  return fail("{} starts at byte {}, which is not a multiple of {} ({})", who, offset, alignment, limit);
}

/// Checks a binding: its range, its alignment, and the device's limit on the size of a storage binding or texel view.
Result<void> checkBinding(Device& device, const std::string& who, const Binding& binding, BindingKind kind) {
  if (!binding.buffer) return fail("{} names no buffer of this device", who);
  const int64_t bytes = bytesOf(binding);
  TG_CHECK(checkRange(device, who, binding.buffer, binding.offset, bytes));
  if (!bytes) return fail("{} is empty", who);
  const Limits& limits = device.info().limits;
  if (kind == BindingKind::storage) {
    TG_CHECK(
        checkAlignment(who, binding.offset, limits[LimitId::alignment], "minStorageBufferOffsetAlignment"));
    if (limits.gives(LimitId::storageRange, bytes)) return {};
    return fail("{} spans {} bytes of buffer '{}'; {} limits a storage binding to {} (maxStorageBufferRange)",
                who, bytes, binding.buffer->name(), device.info().name, limits[LimitId::storageRange]);
  }
  TG_CHECK(
      checkAlignment(who, binding.offset, limits[LimitId::texelAlignment], "minTexelBufferOffsetAlignment"));
  // Vulkan also requires a view to begin at a multiple of its texel size, whatever the device's alignment.
  TG_CHECK(checkAlignment(who, binding.offset, texelBytes(kind), "the bytes of a texel"));
  const int64_t texels = divideCeil(bytes, texelBytes(kind));
  if (limits.gives(LimitId::texelElements, texels)) return {};
  return fail("{} spans {} texels of buffer '{}'; {} limits a texel view to {} (maxTexelBufferElements)", who,
              texels, binding.buffer->name(), device.info().name, limits[LimitId::texelElements]);
}

Result<void> check(Device& device, const Dispatch& d) {
  if (!d.pipeline || &d.pipeline->device() != &device)
    return fail("a dispatch has no pipeline of this device");
  const std::string who = fmt::format("dispatch '{}'", labelOf(d));
  const auto& kinds = d.pipeline->bindings();
  if (d.bindings.size() != kinds.size()) {
    return fail("{} binds {} and its kernel takes {}", who, countText(d.bindings.size(), "buffer"),
                kinds.size());
  }
  const VkPhysicalDeviceLimits& limits = device.state().probe.limits;
  for (size_t i = 0; i < 3; ++i) {
    if (d.grid[i] <= limits.maxComputeWorkGroupCount[i]) continue;
    return fail("{} has {} workgroups along {}; {} limits them to {} (maxComputeWorkGroupCount)", who,
                d.grid[i], "xyz"[i], device.info().name, limits.maxComputeWorkGroupCount[i]);
  }
  for (size_t i = 0; i < kinds.size(); ++i) {
    TG_CHECK(checkBinding(device, fmt::format("binding {} of {}", i, who), d.bindings[i], kinds[i]));
  }
  return {};
}

Result<void> check(Device&, const Barrier&) { return {}; }

Result<void> check(Device& device, const Fill& f) {
  TG_CHECK(checkRange(device, "a fill", f.buffer, f.offset, f.bytes));
  if (f.bytes <= 0) return fail("a fill of buffer '{}' is empty", f.buffer->name());
  TG_CHECK(checkAlignment("a fill", f.offset, 4, "whole words"));
  if (f.bytes % 4) return fail("a fill of {} bytes is not a multiple of 4 (whole words)", f.bytes);
  return {};
}

Result<void> check(Device& device, const Copy& c) {
  TG_CHECK(checkRange(device, "a copy's source", c.source, c.sourceOffset, c.bytes));
  TG_CHECK(checkRange(device, "a copy's target", c.target, c.targetOffset, c.bytes));
  if (c.bytes <= 0) return fail("a copy into buffer '{}' is empty", c.target->name());
  const int64_t distance = std::abs(c.sourceOffset - c.targetOffset);
  if (c.source != c.target || distance >= c.bytes) return {};
  return fail("a copy of {} bytes inside buffer '{}' from byte {} to {} overlaps itself", c.bytes,
              c.source->name(), c.sourceOffset, c.targetOffset);
}

}  // namespace

Result<void> checkCommand(Device& device, const Command& command) {
  return std::visit([&](const auto& c) { return check(device, c); }, command);
}

}  // namespace tg::vulkan
