// SPDX-License-Identifier: Apache-2.0
// The command line of tg-opt and of the pass tools as a library; the programs' mains only link it. IR is written to
// standard output, everything else to standard error.
#pragma once

#include <functional>
#include <utility>

#include "ir/result.h"
#include "ir/target.h"
#include "passes/pass.h"

namespace tg {

/// The exit codes of the tools (docs/tools.md): an error in the input, a wrong command line, wrong numbers, no device
/// or a failed device.
enum ExitCode : int { exitOk = 0, exitInput = 1, exitUsage = 2, exitNumeric = 3, exitDevice = 4 };

/// An error, or that of a result, with another exit code than exitInput.
inline Error withCode(ExitCode code, Error error) { return std::move(error).exiting(code); }
template <class T>
Result<T> withCode(ExitCode code, Result<T> result) {
  return result ? std::move(result) : Result<T>(withCode(code, result.takeError()));
}
template <class... Args>
Error usageError(fmt::format_string<Args...> format, Args&&... args) {
  return withCode(exitUsage, fail(fmt::format(format, std::forward<Args>(args)...)));
}

/// Hooks for programs that link more than passes.
struct OptHooks {
  std::function<Result<Target>()> deviceTarget;  ///< gives `target=auto`; if empty, that is an error
  std::function<Instrumentation()> execEach;     ///< the hooks of --exec-each, for one pipeline; likewise
};

/// tg-opt: runs any pipeline on a module.
int optMain(int argc, char** argv, const OptHooks& hooks = {});
/// tg-grad and the other pass tools: run one pass, with its options as flags.
int passToolMain(int argc, char** argv, const char* passName);

}  // namespace tg
