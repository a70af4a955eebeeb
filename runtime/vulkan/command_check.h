// SPDX-License-Identifier: Apache-2.0
// Checks commands against Vulkan's rules before recording. Internal to this folder.
#pragma once

#include "runtime/vulkan/recording.h"

namespace tg::vulkan {

/// An error if the command breaks a rule: a range, an alignment or a limit of the device. It names the command's label.
Result<void> checkCommand(Device& device, const Command& command);

/// The label of a dispatch, or its kernel's name if the label is empty.
const std::string& labelOf(const Dispatch& dispatch);
/// The size of a binding in bytes, with -1 resolved.
int64_t bytesOf(const Binding& binding);

}  // namespace tg::vulkan
