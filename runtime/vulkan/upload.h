// SPDX-License-Identifier: Apache-2.0
// Copies from host memory that run beside the other work of a device.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/vulkan/recording.h"

namespace tg::vulkan {

/// A copy from a buffer of kind `host` to one of kind `device`, on the device's queue for uploads. It is recorded once
/// and begun many times. Not thread-safe.
class Upload {
 public:
  /// An error if the device has no such queue (`Device::uploadsBeside`), or if the copy is no valid command.
  static Result<std::unique_ptr<Upload>> create(Device& device, const Copy& copy, const std::string& name);
  /// Waits for the copy begun last.
  ~Upload();
  Upload(const Upload&) = delete;
  Upload& operator=(const Upload&) = delete;

  /// Begins the copy, which sees what the host has written to the source. It waits for no other work: nothing may be
  /// using the target. All work that is submitted later waits for it.
  Result<void> submit();

 private:
  struct Impl;
  Upload() = default;
  std::unique_ptr<Impl> impl_;
  uint64_t begun_ = 0;  ///< the last copy's number on the timeline of uploads
};

}  // namespace tg::vulkan
