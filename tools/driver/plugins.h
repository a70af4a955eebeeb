// SPDX-License-Identifier: Apache-2.0
// Plug-ins: shared objects that contain passes (passes/plugin.h).
#pragma once

#include <string>
#include <vector>

#include "ir/result.h"

namespace tg {

/// Loads a plug-in and registers its passes. Loading it twice is harmless.
Result<void> loadPassPlugin(const std::string& file);

/// Loads all plug-ins that a command line names with --load-pass-plugin, since their passes may be flags on it.
Result<void> loadPassPlugins(const std::vector<std::string>& args);

}  // namespace tg
