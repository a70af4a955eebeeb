// SPDX-License-Identifier: Apache-2.0
// Joins a job by a transport in a plug-in library.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/collective/engine.h"

namespace tg::collective {

/// Joins the job in which this process was launched, with the first of these libraries that can be loaded. The dynamic
/// loader searches for a name without a folder. Errors: no library can be loaded, another version of the interface,
/// joining fails. `timeout` as for HostEngine.
Result<std::shared_ptr<Engine>> openPlugin(const std::vector<std::string>& libraries, double timeout);

}  // namespace tg::collective
