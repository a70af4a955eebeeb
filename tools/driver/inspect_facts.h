// SPDX-License-Identifier: Apache-2.0
// What tg-run inspect finds out, as JSON: --json prints it, the text is made from it.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "ir/module.h"
#include "ir/result.h"

namespace tg {

using Facts = nlohmann::ordered_json;

/// The facts of a path, whose `kind` is run, checkpoint, tensors, bundle or module. `damage` in them says why
/// the thing cannot be used; a run that has checkpoints but no good one is damaged too. An error is a path
/// that is none of these, or text that is no module.
Result<Facts> inspectPath(const std::string& path);

/// Stage, functions, params, ops by kind; from stage planned on, memory.
Facts moduleFacts(const Module& module);

/// The facts for people, on standard output. Long tables are cut, which they say.
void printFacts(const Facts& facts);

}  // namespace tg
