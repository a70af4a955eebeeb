// SPDX-License-Identifier: Apache-2.0
// tg-run as a library: each verb has a file, a row in verbs.def, and flags of its own.
//
// Exit codes: 0 success, 1 an error in the input, 2 a wrong command line, 3 a failed numeric check, 4 a failed device;
// 129, 130 and 143 if a signal interrupted the run and its state was saved.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/result.h"
#include "ir/target.h"

namespace CLI {
class App;
}

namespace tg {

/// The arguments after a verb's name.
using Arguments = std::vector<std::string>;

/// One verb of tg-run. Its options are described once, on the CLI::App, from which the command line, --help, the man
/// pages, shell completion and docs/tg-run.md are all made.
class Verb {
 public:
  virtual ~Verb() = default;
  /// Defines the options, which are stored in this object.
  virtual void describe(CLI::App& app) = 0;
  /// Runs the verb after its options have been parsed; `args` are the words as typed. Returns the exit code, or an error
  /// that is still to be printed.
  virtual Result<int> run(CLI::App& app, const Arguments& args) = 0;
};

struct VerbInfo {
  std::string_view name, summary;
  std::unique_ptr<Verb> (*make)();
};
/// The verbs in verbs.def.
std::span<const VerbInfo> verbs();

/// A verb with its options defined.
struct OpenVerb {
  std::unique_ptr<CLI::App> app;
  std::unique_ptr<Verb> verb;
};
OpenVerb openVerb(const VerbInfo& info);

/// The target of the device that `auto` chooses, used for tg-opt's `--target=auto`.
Result<Target> deviceTarget();

}  // namespace tg
