// SPDX-License-Identifier: Apache-2.0
// Owns one Vulkan object, and counts all of them. Internal to this folder.
#pragma once

#include <cstdint>
#include <utility>

#include <volk.h>

namespace tg::vulkan {

/// Adds to the number that `liveHandles` returns.
void countHandles(int64_t delta);

/// The enumerator's name, such as "VK_ERROR_DEVICE_LOST".
const char* resultName(VkResult result);

/// A Vulkan structure of the type given, with everything else zero.
template <class T>
T typed(VkStructureType type) {
  T value{};
  value.sType = type;
  return value;
}

/// Owns one object that belongs to a VkDevice.
template <class T>
class Handle {
 public:
  using Destroy = void(VKAPI_PTR*)(VkDevice, T, const VkAllocationCallbacks*);

  Handle() = default;
  Handle(VkDevice device, T raw, Destroy destroy) : device_(device), raw_(raw), destroy_(destroy) {
    countHandles(1);
  }
  Handle(Handle&& other) noexcept { swap(other); }
  Handle& operator=(Handle&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Handle() {
    if (!destroy_) return;
    destroy_(device_, raw_, nullptr);
    countHandles(-1);
  }

  T get() const { return raw_; }
  explicit operator bool() const { return destroy_ != nullptr; }

 private:
  void swap(Handle& other) {
    std::swap(device_, other.device_);
    std::swap(raw_, other.raw_);
    std::swap(destroy_, other.destroy_);
  }

  VkDevice device_ = VK_NULL_HANDLE;
  T raw_ = VK_NULL_HANDLE;
  Destroy destroy_ = nullptr;
};

}  // namespace tg::vulkan
