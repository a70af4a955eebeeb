// SPDX-License-Identifier: Apache-2.0
// The command line of tg-opt and of the pass tools as a library: mains only name what they link.
//
// IR goes to standard output, everything else to standard error.
#pragma once

#include <functional>

#include "ir/result.h"
#include "ir/target.h"

namespace tg {

/// What the tools exit with (docs/tools.md): a diagnosed failure in what is read, a command line that makes no sense,
/// numbers that are wrong, no device or one that failed.
enum ExitCode : int { exitOk = 0, exitInput = 1, exitUsage = 2, exitNumeric = 3, exitDevice = 4 };

/// What a program that links more than passes can add.
struct OptHooks {
  std::function<Result<Target>()> deviceTarget;  ///< answers `target=auto`; empty refuses it
};

/// tg-opt: any pipeline over a module.
int optMain(int argc, char** argv, const OptHooks& hooks = {});
/// tg-grad and its siblings: one pass, its options as flags.
int passToolMain(int argc, char** argv, const char* passName, const OptHooks& hooks = {});

}  // namespace tg
