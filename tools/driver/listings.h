// SPDX-License-Identifier: Apache-2.0
// Listings in the tools' help, all generated from the tables.
#pragma once

#include <string>

#include "passes/pass.h"

namespace tg {

/// --list-passes: name, stages, tool and summary, one pass on each line.
std::string passList();
/// The names of the passes of an alias, with `between` between them.
std::string partsOf(const PassInfo& alias, std::string_view between);
/// --help-pass: a pass with its options, their types and defaults.
std::string passHelp(const PassInfo& pass);
/// --list-ops: name, fusion class, kind of gradient and meaning of each op, and then the counts.
std::string opList();
/// For example `0.1.0`.
std::string versionNumber();
/// --version: the version number and the kind of build.
std::string versionText();
/// The name of a fusion class; "-" for an op that is never fused.
std::string_view fusionName(table::Fusion fusion);

/// Escapes text for a cell of a Markdown table, which a bar would end.
std::string cell(std::string_view text);

}  // namespace tg
