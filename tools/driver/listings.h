// SPDX-License-Identifier: Apache-2.0
// What the tools say about themselves: all of it derived from the tables.
#pragma once

#include <string>

#include "passes/pass.h"

namespace tg {

/// --list-passes: name, stages, tool, summary, a line each.
std::string passList();
/// The names of the passes that an alias stands for.
std::string partsOf(const PassInfo& alias, std::string_view between);
/// --help-pass: a pass with its options, types and defaults.
std::string passHelp(const PassInfo& pass);
/// --list-ops: name, fusion class, kind of its gradient entry and meaning, then the counts.
std::string opList();
/// `0.1.0`.
std::string versionNumber();
/// --version: the number and the kind of build.
std::string versionText();
/// The word for a fusion class; "-" for an op that is never fused.
std::string_view fusionName(table::Fusion fusion);

/// Text inside a cell of a Markdown table: a bar would end it.
std::string cell(std::string_view text);

}  // namespace tg
