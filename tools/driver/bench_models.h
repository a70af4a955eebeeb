// SPDX-License-Identifier: Apache-2.0
// The workloads that speed is reported for.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/result.h"

namespace tg {

std::vector<std::string> benchModelNames();
/// A workload by name, with its train_pipeline; nothing for another name.
std::optional<Result<std::unique_ptr<Module>>> benchModel(const std::string& name);

}  // namespace tg
