// SPDX-License-Identifier: Apache-2.0
#include "tools/driver/cli.h"

#include <dlfcn.h>

#include <set>

#include "passes/plugin.h"

namespace tg {

Result<void> loadPassPlugin(const std::string& file) {
  static std::set<void*> loaded;
  // The loader would search for a name without a folder among the system's libraries.
  const std::string path = file.find('/') == std::string::npos ? "./" + file : file;
  void* object = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!object) return fail("the pass plug-in cannot be loaded: {}", dlerror());
  if (!loaded.insert(object).second) return {};
  auto* entry = reinterpret_cast<const PassPlugin* (*)()>(dlsym(object, "tgPassPlugin"));
  if (!entry) return fail("{} is not a pass plug-in: it has no TG_PASS_PLUGIN(…)", file);
  const PassPlugin& plugin = *entry();
  if (plugin.version != kPassPluginVersion)
    return fail("{} is a pass plug-in of version {}, and this tool takes version {}: build it against this "
                "tool's headers",
                file, plugin.version, kPassPluginVersion);
  if (auto done = plugin.registerPasses(); !done)
    return fail("{} ({}): {}", file, plugin.name, done.error().message());
  loadedPlugins().push_back(path);
  return {};
}

Result<void> loadPassPlugins(const std::vector<std::string>& args) {
  const std::string flag = "--load-pass-plugin";
  for (size_t i = 0; i < args.size() && args[i] != "--"; ++i) {
    if (args[i].starts_with(flag + "=")) TG_CHECK(loadPassPlugin(args[i].substr(flag.size() + 1)));
    if (args[i] == flag && i + 1 < args.size()) TG_CHECK(loadPassPlugin(args[i + 1]));
  }
  return {};
}

}  // namespace tg
