// SPDX-License-Identifier: Apache-2.0
// The Vulkan loader and one instance, with or without the validation layer. Internal to this folder.
#pragma once

#include <memory>

#include "ir/result.h"
#include "runtime/vulkan/device.h"
#include "runtime/vulkan/handle.h"

namespace tg::vulkan {

class Instance {
 public:
  /// `log` receives the layer's messages; null if `validation` is off. Without validation all callers share one
  /// instance, which lasts as long as the process.
  static Result<std::shared_ptr<Instance>> create(bool validation, std::shared_ptr<ValidationLog> log);
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  VkInstance raw() const { return raw_; }
  /// Whether objects can be named and commands labelled.
  bool debugUtils() const { return debugUtils_; }

 private:
  Instance() = default;
  Result<void> initialize(bool validation);

  std::shared_ptr<ValidationLog> log_;
  VkInstance raw_ = VK_NULL_HANDLE;
  VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
  bool debugUtils_ = false;
};

}  // namespace tg::vulkan
