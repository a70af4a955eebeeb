// SPDX-License-Identifier: Apache-2.0
// The folder in which programs keep compiled shaders, pipelines and measurements between runs.
#pragma once

#include <string>

namespace tg {

/// The first of $TENSORGRAD_CACHE, $XDG_CACHE_HOME/tensorgrad and ~/.cache/tensorgrad that is set. "" if none is set,
/// or if TENSORGRAD_CACHE is empty. Does not create the folder.
std::string userCacheFolder();

}  // namespace tg
