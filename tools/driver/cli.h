// SPDX-License-Identifier: Apache-2.0
// Parses the command line of tg-opt and the pass tools.
#pragma once
namespace CLI {
class App;
class ParseError;
}  // namespace CLI

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/parser.h"
#include "ir/result.h"
#include "passes/pass.h"
#include "tools/driver/driver.h"

namespace tg {

/// Why the value of a flag is wrong; "" for true and false. CLI11 also accepts numbers, and words such as on.
std::string notTrueOrFalse(const std::string& value);

/// A parsed command line.
struct Command {
  std::string tool = "tg-opt";
  std::string input = "-";   ///< a path, "-" for standard input
  std::string output = "-";  ///< a path, "-" for standard output
  PassManager pipeline;
  std::string emit = "text";  ///< text or the name of an emitter
  std::string target;         ///< the default for passes with an option `target`
  bool split = false, verifyDiagnostics = false, verifyRoundtrip = false, execEach = false;
  bool timing = false, dumpPipeline = false, printLoc = false;
  bool printBeforeAll = false, printAfterAll = false;
  std::vector<std::string> printBefore, printAfter;  ///< names of passes
  std::string treeDir;
  std::string reproducer;  ///< "" is the default name, "none" writes none

  PrintOptions printOptions() const;
};

/// A command, or an exit code: for a command line that has been answered (help, lists), or that is wrong (the reason
/// has then been printed on standard error).
struct ParsedCommand {
  std::optional<int> exit;
  Command command;
};
/// `only` is the pass of a pass tool; null for tg-opt.
ParsedCommand parseCommand(int argc, char** argv, const PassInfo* only);

/// The options of a tool, for generating its documentation.
std::shared_ptr<const CLI::App> describedCommand(const PassInfo* only);

/// The output of --help, with one empty line between groups of options.
std::string helpOf(const CLI::App& app);

/// Rewrites `-o=FILE` as `-oFILE`, for one-letter options with a value.
std::vector<std::string> withoutShortEquals(std::vector<std::string> args);

/// A message such as `unknown flag --stepz; did you mean --steps?` for the first word before any `--` that starts with
/// `--` and is not an option of the app; nothing if there is none.
std::optional<std::string> unknownFlag(const CLI::App& app, const std::vector<std::string>& args);

/// What is wrong with a command line that CLI11 refuses.
std::string whyWrong(const CLI::App& app, const CLI::ParseError& error);

/// Reads a target as options give it: the name of a shipped target, JSON, or a JSON file.
Result<Target> readTarget(const std::string& text);
/// Whether the text names a file.
bool isTargetFile(std::string_view text);

/// Checks the text of --pipeline and returns the first error: in its passes, their options, or the name of a target.
Result<void> checkPipeline(const std::string& text);

/// Replaces every `target` in the pipeline that is not a shipped name (a JSON file by its content, `auto` by the
/// device's data), so that passes read no files and no devices.
Result<void> resolveTargets(Command& command, const OptHooks& hooks);

/// Loads a plug-in and registers its passes. Loading it twice is harmless.
Result<void> loadPassPlugin(const std::string& file);

/// Loads all plug-ins that a command line names with --load-pass-plugin, since their passes may be flags on it.
Result<void> loadPassPlugins(const std::vector<std::string>& args);

}  // namespace tg
