// SPDX-License-Identifier: Apache-2.0
// What somebody needs to look into one kernel that computes something else on a device.
#pragma once

#include <string>

#include "runtime/check/kernel_steps.h"

namespace tg {

/// Writes into DIR/FUNCTION-NUMBER-KERNEL, which is made: kernel.tgir, kernel.comp, kernel.spv, device.json
/// and for each buffer before_NAME.npy, and device_NAME.npy and interp_NAME.npy where it is written. Returns
/// that folder. Errors: what cannot be written.
Result<std::string> dumpStep(const std::string& dir, const std::string& function, const Module& module,
                             const KernelStep& step, const vulkan::DeviceInfo& device);

}  // namespace tg
