// SPDX-License-Identifier: Apache-2.0
// What a device can do at most, measured with kernels of our own through our own runtime.
#pragma once

#include <memory>

#include "ir/result.h"
#include "runtime/vulkan/device.h"

namespace tg {

struct Ceilings {
  double gigabytesPerSecond = 0;  ///< read and written, by a copy from one buffer to another
  double gigaflopsPerSecond = 0;  ///< f32, an fma being two, in chains that wait for no memory
  int64_t copyBytes = 0;          ///< of each of the two buffers: more than caches hold

  /// Work of so many operations on so many bytes takes no less, in microseconds.
  double memoryMicroseconds(double bytes) const { return bytes / gigabytesPerSecond * 1e-3; }
  double computeMicroseconds(double flops) const { return flops / gigaflopsPerSecond * 1e-3; }
};

/// The best of many dispatches of each kernel, after the device has warmed up: a second or so, and two
/// buffers of at most 256 MiB. An error on a device without timestamps.
Result<Ceilings> measureCeilings(const std::shared_ptr<vulkan::Device>& device);

}  // namespace tg
