// SPDX-License-Identifier: Apache-2.0
#include "tools/driver/cache_folder.h"

#include <cstdlib>

namespace tg {

std::string userCacheFolder() {
  if (const char* own = std::getenv("TENSORGRAD_CACHE")) return own;
  if (const char* caches = std::getenv("XDG_CACHE_HOME"); caches && *caches)
    return std::string(caches) + "/tensorgrad";
  const char* home = std::getenv("HOME");
  return home && *home ? std::string(home) + "/.cache/tensorgrad" : "";
}

}  // namespace tg
