// SPDX-License-Identifier: Apache-2.0
// Joining a job by a plug-in library.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/collective/engine.h"

namespace tg::collective {

/// Joins the job that this process was launched in, through the first of these libraries that can be loaded (a name
/// without a folder is looked for among the system's). Errors: none can be, one is of another version, joining fails.
/// `patience` as of HostEngine.
Result<std::shared_ptr<Engine>> openPlugin(const std::vector<std::string>& libraries, double patience);

}  // namespace tg::collective
