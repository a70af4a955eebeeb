// SPDX-License-Identifier: Apache-2.0
// The options of a tool as data, taken from its CLI::App. Man pages, shell completion and docs/tg-run.md are made from
// it.
#pragma once

#include <string>
#include <vector>

#include "passes/pass.h"
#include "tools/driver/run.h"

namespace tg {

/// The words that a shell can offer for a value.
enum class Words {
  none,     ///< nothing: a number, or a name of the user's
  choices,  ///< one of a fixed set
  files,
  folders,
  spec,     ///< data: a file follows `@`, `text:` or `tokens:`
  targets,  ///< names of shipped targets, or a file
  devices,
  passes,   ///< names of passes, separated by commas
  options,  ///< the options of the pass that the flag names
};

/// One option, or one positional argument.
struct OptionCard {
  std::vector<std::string> names;  ///< as typed, `-o` and `--output`; for a positional argument, its name
  std::string value;               ///< placeholder of the value; "" for a flag
  bool bare = false;               ///< the value may be omitted
  bool required = false, many = false;
  std::string help, group, fallback;
  Words words = Words::none;
  std::vector<std::string> choices;

  /// The usage, such as `-o, --output=FILE`, `--fuse[=OPTIONS]` or `RUN...`.
  std::string usage() const;
  /// The help text, followed by choices that neither it nor the placeholder names, the default, and whether the option
  /// is required.
  std::string meaning() const;
};

/// One program, or one verb of tg-run.
struct ToolCard {
  std::string name;     ///< such as `tg-run train`
  std::string page;     ///< name of its man page: `tg-run-train`
  std::string summary;  ///< a phrase without a full stop
  std::string about;    ///< full sentences
  std::vector<OptionCard> arguments, options;

  /// The synopsis, such as `tg-run train [OPTIONS] [FILE]`.
  std::string synopsis() const;
  /// The groups of the options, in order.
  std::vector<std::string> groups() const;
};

ToolCard cardOf(const VerbInfo& verb);
/// The card of tg-opt, or of the program of one pass.
ToolCard cardOf(const PassInfo* only);
/// The cards of tg-opt and of the program of each pass.
std::vector<ToolCard> passTools();

struct ExitStatus {
  const char *code, *meaning;
};
/// The exit codes of tg-run; the first three are also those of tg-opt.
const std::vector<ExitStatus>& exitCodes();

struct Variable {
  const char *name, *meaning;
};
/// The environment variables that tg-run reads.
const std::vector<Variable>& environment();

}  // namespace tg
