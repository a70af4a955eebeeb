// SPDX-License-Identifier: Apache-2.0
// Switches the collectives of a job from the host to NCCL, where all ranks can.
#pragma once

#include <memory>
#include <string>

#include "runtime/collective/engine.h"
#include "runtime/collective/nccl_library.h"
#include "runtime/vulkan/device.h"

namespace tg {

/// The outcome, the same on all ranks but for the pointers.
struct NcclInit {
  std::shared_ptr<collective::Engine> ranks;  ///< by NCCL; null if a rank cannot
  std::shared_ptr<vulkan::Device> device;     ///< opened to be shared, if all ranks can
  std::string why;                            ///< a rank cannot
  bool expected = false;  ///< all ranks are on NVIDIA GPUs, so the user should be told `why`
};

/// Collective over the ranks of `host`, each with the device that it will use. Runs one all-reduce as a test. Errors: a
/// rank was lost, or the test hangs.
Result<NcclInit> initNccl(const std::shared_ptr<collective::Engine>& host, vulkan::DeviceOptions device,
                          const collective::NcclNames& names = {});

}  // namespace tg
