// SPDX-License-Identifier: Apache-2.0
// The information that tg-run inspect shows, as JSON: --json prints it, and the text output is made from it.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "ir/module.h"
#include "ir/result.h"

namespace tg {

using Facts = nlohmann::ordered_json;

/// The facts about a path. Their `kind` is run, checkpoint, tensors, bundle or module. Their `damage` says why the
/// thing cannot be used; a run with checkpoints but without a good one is damaged too. An error if the path is none of
/// these kinds, or if its text is not a valid module.
Result<Facts> inspectPath(const std::string& path);

/// Stage, functions, params and ops by kind; from stage planned on, also memory.
Facts moduleFacts(const Module& module);

/// Prints the facts as text on standard output. Long tables are cut, with a note.
void printFacts(const Facts& facts);

}  // namespace tg
