// SPDX-License-Identifier: Apache-2.0
// Declarations of the KHR extensions for cooperative matrices and bf16. The loader of bundles includes the same text.
// Internal to this folder.
#pragma once

#include <volk.h>

namespace tg::vulkan {
#include "runtime/vulkan/khr_types.inc"
}  // namespace tg::vulkan
