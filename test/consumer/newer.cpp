// SPDX-License-Identifier: Apache-2.0
#include "passes/plugin.h"

extern "C" const tg::PassPlugin* tgPassPlugin() {
  static const tg::PassPlugin plugin = {tg::kPassPluginVersion + 1000, "newer", nullptr};
  return &plugin;
}
