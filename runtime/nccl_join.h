// SPDX-License-Identifier: Apache-2.0
// How ranks that have met come to reduce on their GPUs.
#pragma once

#include <memory>
#include <string>

#include "runtime/collective/engine.h"
#include "runtime/collective/nccl_library.h"
#include "runtime/vulkan/device.h"

namespace tg {

/// What the ranks have agreed on.
struct NcclJoined {
  std::shared_ptr<collective::Engine> ranks;  ///< by nccl; null where one of them cannot
  std::shared_ptr<vulkan::Device> device;     ///< opened to be shared, where they all can
  std::string why;                            ///< they cannot, the same on all ranks
  bool expected = false;                      ///< that they could: all are on NVIDIA's GPUs
};

/// A meeting of all ranks of `host`, each with the device that it will work on. One sum of theirs is tried out. Errors:
/// a rank was lost; what was tried out does not come back.
Result<NcclJoined> joinNccl(const std::shared_ptr<collective::Engine>& host, vulkan::DeviceOptions device,
                            const collective::NcclNames& names = {});

}  // namespace tg
