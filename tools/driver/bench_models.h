// SPDX-License-Identifier: Apache-2.0
// The models (workloads) whose speed is reported, and the results of tg-run bench: stored as rows in a file, shown as
// tables, compared with those of another build.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "ir/module.h"
#include "ir/result.h"

namespace tg {

std::vector<std::string> benchModelNames();
/// The model with this name, with its train_pipeline; nothing for an unknown name.
std::optional<Result<std::unique_ptr<Module>>> benchModel(const std::string& name);

/// The time of compilation in milliseconds, from a session's phases: {"parse", "passes", "glsl", "shaderc",
/// "pipelines", "all"}. `parse` is given separately because it is not a pass.
nlohmann::ordered_json compileSplit(double parse, const std::vector<std::pair<std::string, double>>& phases);

/// The rows of a file, an array of objects with a "model". The error names the file.
Result<nlohmann::ordered_json> readResults(const std::string& path);
/// The rows that a file already has; none if it does not exist.
Result<nlohmann::ordered_json> resultsBefore(const std::string& path);
/// Adds a row to a file, replacing the row of the same model if there is one.
Result<void> addResult(const std::string& path, const nlohmann::ordered_json& row);

/// A Markdown table: a line with the devices, a row for each workload, and a row for each of its compilations.
std::string resultsTable(const nlohmann::ordered_json& rows);
/// A Markdown table of new over old figures for every column and every workload that both have; – if a figure is
/// missing.
std::string ratiosTable(const nlohmann::ordered_json& rows, const nlohmann::ordered_json& old);

}  // namespace tg
