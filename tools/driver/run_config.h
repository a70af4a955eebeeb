// SPDX-License-Identifier: Apache-2.0
// Reads and writes config.toml, a run's options as text that is valid in any folder.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "ir/result.h"
#include "runtime/train/config_entries.h"

namespace tg {

/// An option's value with all paths in it made absolute, so that it means the same in any folder. `option` is the name
/// without dashes. Values of options without paths are unchanged.
std::string fromAnyFolder(const std::string& option, const std::string& value);

/// The options of `app` that were given, one on each line, in the order of --help. --run-dir is left out, since the
/// text is stored in that folder. `model` replaces a FILE that came from standard input.
std::string configText(const CLI::App& app, const std::string& model);

/// Makes --config of `app` read files with `parseConfig`. Options on the command line override those in the file, also
/// those that they exclude.
void useRunConfig(CLI::App& app);

/// A prefix for a message that begins with an option, such as `--lr=nan: …`: `c.toml: ` if the option's value is from
/// the file of --config, otherwise "".
std::string configOf(const CLI::App& app, std::string_view message);

}  // namespace tg
