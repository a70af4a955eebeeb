// SPDX-License-Identifier: Apache-2.0
// Where programs keep what they compiled.
#pragma once

#include <string>

namespace tg {

/// $TENSORGRAD_CACHE, $XDG_CACHE_HOME/tensorgrad or ~/.cache/tensorgrad, the first that is set; "" when none
/// is or TENSORGRAD_CACHE is empty. Nothing is made.
std::string userCacheFolder();

}  // namespace tg
