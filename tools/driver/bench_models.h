// SPDX-License-Identifier: Apache-2.0
// The models (workloads) whose speed is reported.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/result.h"

namespace tg {

std::vector<std::string> benchModelNames();
/// The model with this name, with its train_pipeline; nothing for an unknown name.
std::optional<Result<std::unique_ptr<Module>>> benchModel(const std::string& name);

}  // namespace tg
