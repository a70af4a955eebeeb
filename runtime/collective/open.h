// SPDX-License-Identifier: Apache-2.0
// Joins a job by a transport in a plug-in library.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/collective/engine.h"

namespace tg::collective {

/// Joins the job that this process was launched in, by the first of these libraries that can be loaded; a name without
/// a folder is searched for by the dynamic loader. Errors: none can be loaded, another version, joining fails.
/// `timeout` as of HostEngine.
Result<std::shared_ptr<Engine>> openPlugin(const std::vector<std::string>& libraries, double timeout);

}  // namespace tg::collective
