// SPDX-License-Identifier: Apache-2.0
// The command line of tg-opt and the pass tools, parsed.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/parser.h"
#include "passes/pass.h"
#include "tools/driver/driver.h"

namespace CLI {
class App;
}

namespace tg {

/// What one invocation asks for.
struct Command {
  std::string tool = "tg-opt";
  std::string input = "-";   ///< a path, "-" for standard input
  std::string output = "-";  ///< a path, "-" for standard output
  PassManager pipeline;
  std::string emit = "text";  ///< text or the name of an emitter
  std::string target;         ///< for passes with an option `target` that none is given
  bool split = false, verifyDiagnostics = false, verifyRoundtrip = false;
  bool timing = false, dumpPipeline = false, printLoc = false;
  bool printBeforeAll = false, printAfterAll = false;
  std::vector<std::string> printBefore, printAfter;  ///< names of passes
  std::string treeDir;
  std::string reproducer;  ///< "" is the default name, "none" writes none

  PrintOptions printOptions() const;
};

/// The command, or the exit code of a command line that is already answered (help, lists) or wrong
/// (the reason is on standard error).
struct ParsedCommand {
  std::optional<int> exit;
  Command command;
};
/// `only` is the pass of a pass tool, null for tg-opt.
ParsedCommand parseCommand(int argc, char** argv, const PassInfo* only);

/// The options of that tool, for whoever writes about them.
std::shared_ptr<const CLI::App> describedCommand(const PassInfo* only);

/// What --help prints: one empty line between groups of options.
std::string helpOf(const CLI::App& app);

/// `-o=FILE` as `-oFILE`, for options of one letter that take a value.
std::vector<std::string> withoutShortEquals(std::vector<std::string> args);

/// `unknown flag --stepz; did you mean --steps?` for the first word that starts with `--`, precedes any `--`
/// and is no option of the app; nothing when there is none.
std::optional<std::string> unknownFlag(const CLI::App& app, const std::vector<std::string>& args);

/// A target as options name it: a shipped name, JSON, or a JSON file.
Result<Target> readTarget(const std::string& text);
/// Whether the text names a file.
bool isTargetFile(std::string_view text);
/// What to exit with where `readTarget` fails: a name is the command line's, a file the input's.
int targetCode(std::string_view text);

/// The first thing that is wrong with the text of --pipeline: its passes, their options, or a target by a name that is
/// none.
Result<void> checkPipeline(const std::string& text);

/// Replaces every `target` of the pipeline that is not a shipped name: a JSON file by its content,
/// `auto` by the device's data, so that passes read no files and no devices. 0, or an exit code after printing why.
int resolveTargets(Command& command, const OptHooks& hooks);

}  // namespace tg
