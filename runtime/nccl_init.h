// SPDX-License-Identifier: Apache-2.0
// Switches a job's collectives from the host engine to NCCL if all ranks support it.
#pragma once

#include <memory>
#include <string>

#include "runtime/collective/engine.h"
#include "runtime/vulkan/device.h"

namespace tg {

/// The outcome, which is the same on all ranks except for the pointers.
struct NcclInit {
  std::shared_ptr<collective::Engine> ranks;  ///< the NCCL engine; null if a rank cannot use NCCL
  std::shared_ptr<vulkan::Device> device;     ///< opened with shareable memory, if all ranks can
  std::string why;                            ///< the reason if a rank cannot use NCCL
  bool expected = false;  ///< all ranks are on NVIDIA GPUs, so the user should be told `why`
};

/// All ranks of `host` call this together, each with the device that it will use. Runs one all-reduce as a test.
/// Errors: a rank was lost, or the test hangs.
Result<NcclInit> initNccl(const std::shared_ptr<collective::Engine>& host, vulkan::DeviceOptions device);

}  // namespace tg
