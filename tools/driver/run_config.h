// SPDX-License-Identifier: Apache-2.0
// config.toml of a run: options as text, both ways, from any folder.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "ir/result.h"

namespace tg {

/// An option's value with every path in it absolute, so that it means the same in any folder. `option` is the
/// name without dashes; values of options that hold no path stay as they are.
std::string fromAnyFolder(const std::string& option, const std::string& value);

/// The options of `app` that were given, in the order of --help, a line each; without --run-dir, since the
/// text stands in that folder. `model` takes the place of a FILE that came on standard input.
std::string configText(const CLI::App& app, const std::string& model);

/// A key of config.toml and its value or values.
struct ConfigEntry {
  std::string key;
  std::vector<std::string> values;
  int line = 0;
};
/// Reads `key = value` lines of TOML: strings in both quotes, numbers, true and false, lists of these. Errors, which
/// include a key that stands twice, name `where` and the line.
Result<std::vector<ConfigEntry>> parseConfig(std::string_view text, const std::string& where);

/// Makes --config of `app` read files by `parseConfig`. An option that was typed wins, also over those in the
/// file that it excludes.
void useRunConfig(CLI::App& app);

/// `c.toml: ` where a message begins with an option, `--lr=nan: …`, whose value stands in the file of --config; ""
/// otherwise.
std::string configOf(const CLI::App& app, std::string_view message);

}  // namespace tg
