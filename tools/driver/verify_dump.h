// SPDX-License-Identifier: Apache-2.0
// Saves everything that is needed to examine a kernel that computes a different result on a device.
#pragma once

#include <string>

#include "runtime/check/kernel_steps.h"

namespace tg {

/// Creates the folder DIR/FUNCTION-NUMBER-KERNEL and returns it. It has kernel.tgir, kernel.comp, kernel.spv and
/// device.json, before_NAME.npy for each buffer, and device_NAME.npy and interp_NAME.npy for each buffer that is
/// written. An error if something cannot be written.
Result<std::string> dumpStep(const std::string& dir, const std::string& function, const Module& module,
                             const KernelStep& step, const vulkan::DeviceInfo& device);

}  // namespace tg
