// SPDX-License-Identifier: Apache-2.0
// Matrices and bf16 by the KHR extensions, which the loader of bundles declares by the same text. Internal to
// this folder.
#pragma once

#include <volk.h>

namespace tg::vulkan {
#include "runtime/vulkan/khr_types.inc"
}  // namespace tg::vulkan
