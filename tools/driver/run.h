// SPDX-License-Identifier: Apache-2.0
// tg-run as a library: one file for each verb, one row in verbs.def. Verbs have flags of their own.
//
// Exit codes: 0 ok, 1 a diagnosed failure in the input, 2 a command line that makes no sense, 3 a numeric
// check failed, 4 the device failed, 129, 130 and 143 interrupted after a successful save.
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

/// The words after a verb's name.
using Arguments = std::vector<std::string>;

/// One verb of tg-run. Its options are described once, on the CLI::App; the command line, --help, the man
/// pages, shell completion and docs/tg-run.md all come from there.
class Verb {
 public:
  virtual ~Verb() = default;
  /// Adds the options, which write into this object.
  virtual void describe(CLI::App& app) = 0;
  /// Runs with the options parsed; `args` are the words as typed. Returns the exit code after printing why.
  virtual int run(CLI::App& app, const Arguments& args) = 0;
};

struct VerbInfo {
  std::string_view name, summary;
  std::unique_ptr<Verb> (*make)();
};
/// The rows of verbs.def.
std::span<const VerbInfo> verbs();

/// A verb with its options described.
struct OpenVerb {
  std::unique_ptr<CLI::App> app;
  std::unique_ptr<Verb> verb;
};
OpenVerb openVerb(const VerbInfo& info);

/// The target of the device that `auto` chooses: what tg-opt's `--target=auto` stands for.
Result<Target> deviceTarget();

}  // namespace tg
