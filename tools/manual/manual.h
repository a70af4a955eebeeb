// SPDX-License-Identifier: Apache-2.0
// Man pages, shell completion and docs/tg-run.md. Each function turns a tool's card into text.
#pragma once

#include <string>
#include <vector>

#include "tools/manual/card.h"

namespace tg {

/// tg-run(1), with a list of the verbs.
std::string manOfRun(const std::vector<ToolCard>& verbs);
/// tg-run-VERB(1).
std::string manOfVerb(const ToolCard& verb);
/// tg-opt(1), tg-grad(1) and so on. The page of tg-opt lists the options of each pass.
std::string manOfPassTool(const ToolCard& tool);

/// Shell completion of tg-run for bash and zsh.
std::string bashOfRun(const std::vector<ToolCard>& verbs);
std::string zshOfRun(const std::vector<ToolCard>& verbs);
/// Shell completion of a tool without verbs.
std::string bashOf(const ToolCard& tool);
std::string zshOf(const ToolCard& tool);

/// docs/tg-run.md, with a section for each verb.
std::string runPage();

/// The words that a shell offers: the choices, or the names that `words` stands for; "" before files.
std::vector<std::string> offeredWords(const OptionCard& option);
/// The options of a pass in the form that `--PASS=` takes, such as `lr=`.
std::vector<std::string> passOptionWords(const PassInfo& pass);

}  // namespace tg
