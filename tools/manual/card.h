// SPDX-License-Identifier: Apache-2.0
// What a tool's CLI::App says about its options, as data: man pages, shell completion and docs/tg-run.md are
// written from it.
#pragma once

#include <string>
#include <vector>

#include "passes/pass.h"
#include "tools/driver/run.h"

namespace tg {

/// What a shell can offer for a value.
enum class Words {
  none,     ///< nothing: a number, a name of the user's
  choices,  ///< one of a fixed set
  files,
  folders,
  spec,     ///< data: a file comes after `@`, `text:` or `tokens:`
  targets,  ///< shipped targets, or a file
  devices,
  passes,   ///< names of passes, between commas
  options,  ///< the options of the pass that the flag names
};

/// One option, or one positional argument.
struct OptionCard {
  std::vector<std::string> names;  ///< as typed, `-o` and `--output`; a positional's own name
  std::string value;               ///< what stands for the value; "" for a flag
  bool bare = false;               ///< the value may be left out
  bool required = false, many = false;
  std::string help, group, fallback;
  Words words = Words::none;
  std::vector<std::string> choices;

  /// `-o, --output=FILE`, `--fuse[=OPTIONS]`, `RUN...`.
  std::string usage() const;
  /// The help, with choices that neither it nor the placeholder names, the default, and whether it is
  /// required.
  std::string meaning() const;
};

/// One program, or one verb of tg-run.
struct ToolCard {
  std::string name;     ///< `tg-run train`
  std::string page;     ///< of its manual: `tg-run-train`
  std::string summary;  ///< a phrase without a full stop
  std::string about;    ///< sentences
  std::vector<OptionCard> arguments, options;

  /// `tg-run train [OPTIONS] [FILE]`.
  std::string synopsis() const;
  /// Of the options, in their order.
  std::vector<std::string> groups() const;
};

ToolCard cardOf(const VerbInfo& verb);
/// tg-opt, or the program of one pass.
ToolCard cardOf(const PassInfo* only);
/// tg-opt and each program of a pass.
std::vector<ToolCard> passTools();

struct ExitStatus {
  const char *code, *meaning;
};
/// Of tg-run; those of tg-opt are the first three.
const std::vector<ExitStatus>& exitCodes();

struct Variable {
  const char *name, *meaning;
};
/// The environment that tg-run reads.
const std::vector<Variable>& environment();

}  // namespace tg
