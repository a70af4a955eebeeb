// SPDX-License-Identifier: Apache-2.0
// The peak memory bandwidth and arithmetic rate of a device, measured with our own kernels and runtime.
#pragma once

#include <memory>

#include "ir/result.h"
#include "runtime/vulkan/device.h"

namespace tg {

struct Ceilings {
  double gigabytesPerSecond = 0;  ///< bytes read plus bytes written, by a copy between two buffers
  double gigaflopsPerSecond = 0;  ///< f32, an fma counting as two, in chains that do not wait for memory
  int64_t copyBytes = 0;          ///< size of each of the two buffers: larger than caches

  /// The least time, in microseconds, to move this many bytes, or to do this many operations.
  double memoryMicroseconds(double bytes) const { return bytes / gigabytesPerSecond * 1e-3; }
  double computeMicroseconds(double flops) const { return flops / gigaflopsPerSecond * 1e-3; }
};

/// Takes the fastest of many dispatches of each kernel, after the device has warmed up. Needs about a second, and two
/// buffers of at most 256 MiB. An error on a device without timestamps.
Result<Ceilings> measureCeilings(const std::shared_ptr<vulkan::Device>& device);

}  // namespace tg
