// SPDX-License-Identifier: Apache-2.0
// What a command must satisfy before Vulkan sees it. Internal to this folder.
#pragma once

#include "runtime/vulkan/recording.h"

namespace tg::vulkan {

/// An error names the command's label and what it breaks: a range, an alignment or a device's limit.
Result<void> checkCommand(Device& device, const Command& command);

/// The dispatch's own label, or its kernel's name.
const std::string& labelOf(const Dispatch& dispatch);
/// Bytes of a binding, with -1 resolved.
int64_t bytesOf(const Binding& binding);

}  // namespace tg::vulkan
