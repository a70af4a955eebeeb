// SPDX-License-Identifier: Apache-2.0
// Shared objects with passes in them (passes/plugin.h).
#pragma once

#include <string>
#include <vector>

#include "ir/result.h"

namespace tg {

/// Loads a plug-in and registers its passes. Loading one twice is harmless.
Result<void> loadPassPlugin(const std::string& file);

/// Loads all plug-ins that a command line names by --load-pass-plugin, whose passes may be flags on it.
Result<void> loadPassPlugins(const std::vector<std::string>& args);

}  // namespace tg
