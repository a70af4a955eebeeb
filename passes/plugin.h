// SPDX-License-Identifier: Apache-2.0
// A shared object with passes in it, which tg-opt and tg-run load by --load-pass-plugin=FILE.so.
#pragma once

#include "ir/result.h"

namespace tg {

/// Counts the changes to what a plug-in sees of the library: a tool takes plug-ins of its own version alone.
inline constexpr int kPassPluginVersion = 1;

/// What a plug-in's entry gives. Only `version` may be read before it is known to be kPassPluginVersion.
struct PassPlugin {
  int version;
  const char* name;
  Result<void> (*registerPasses)();  ///< calls registerPass for each of its passes
};

}  // namespace tg

/// Defines the entry, once in a plug-in, outside of namespaces: TG_PASS_PLUGIN("my-passes", registerMine).
#define TG_PASS_PLUGIN(name, registerPasses)                                               \
  extern "C" __attribute__((visibility("default"))) const tg::PassPlugin* tgPassPlugin() { \
    static const tg::PassPlugin plugin = {tg::kPassPluginVersion, name, registerPasses};   \
    return &plugin;                                                                        \
  }
