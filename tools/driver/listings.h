// SPDX-License-Identifier: Apache-2.0
// Listings in the tools' help, and pages of the documentation, all generated from the tables, so that a test can compare
// the pages with these.
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

/// docs/ops.md: every op of both dialects with operands, attributes, constraints, gradient and example.
std::string opsPage();
/// docs/passes.md: every pass with its stages, tool and options.
std::string passesPage();
/// docs/schedules.md: every kind of schedule with its fields.
std::string schedulesPage();
/// docs/traits.md: every trait of targets, with its values in the shipped targets.
std::string traitsPage();
/// docs/from-typescript.md: the equivalent of each op kind and export of tensorgrad for TypeScript.
std::string mappingPage();
/// docs/from-kernel-ir.md: the equivalent of each construct of another kernel IR.
std::string kernelMappingPage();

}  // namespace tg
