// SPDX-License-Identifier: Apache-2.0
// The interface of a shared object with passes, which tg-opt and tg-run load by --load-pass-plugin=FILE.so.
#pragma once

#include <string>
#include <vector>

#include "ir/result.h"

namespace tg {

/// Incremented when the part of the library that plug-ins use changes: a tool accepts only plug-ins of its own version.
inline constexpr int kPassPluginVersion = 1;

/// What the entry of a plug-in returns. Only `version` may be read before it is known to be kPassPluginVersion.
struct PassPlugin {
  int version;
  const char* name;
  Result<void> (*registerPasses)();  ///< calls registerPass for each of its passes
};

/// The files of the plug-ins that a tool has loaded. Reproducers name them.
std::vector<std::string>& loadedPlugins();

}  // namespace tg

/// Defines the entry; use it once in a plug-in, outside of namespaces: TG_PASS_PLUGIN("my-passes", registerMine).
#define TG_PASS_PLUGIN(name, registerPasses)                                               \
  extern "C" __attribute__((visibility("default"))) const tg::PassPlugin* tgPassPlugin() { \
    static const tg::PassPlugin plugin = {tg::kPassPluginVersion, name, registerPasses};   \
    return &plugin;                                                                        \
  }
