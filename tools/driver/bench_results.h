// SPDX-License-Identifier: Apache-2.0
// What tg-run bench measured: rows kept in a file, shown as tables, compared with those of another build.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "ir/result.h"

namespace tg {

/// Where compilation spent its milliseconds, from a session's phases: {"parse", "passes", "glsl", "shaderc",
/// "pipelines", "all"}. `parse` stands apart because no pass does it.
nlohmann::ordered_json compileSplit(double parse, const std::vector<std::pair<std::string, double>>& phases);

/// The rows of a file: an array of objects with a "model", or an error that names the file.
Result<nlohmann::ordered_json> readResults(const std::string& path);
/// The rows that are in a file already; none where there is no file.
Result<nlohmann::ordered_json> resultsBefore(const std::string& path);
/// Adds a row to those of a file, in place of one of the same model.
Result<void> addResult(const std::string& path, const nlohmann::ordered_json& row);

/// Markdown: a line of devices, a row for each workload, and a row for each of its compilations.
std::string resultsTable(const nlohmann::ordered_json& rows);
/// Markdown: new over old for every column, and workload that both have; – where either lacks the figure.
std::string ratiosTable(const nlohmann::ordered_json& rows, const nlohmann::ordered_json& old);

}  // namespace tg
