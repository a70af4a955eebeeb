// SPDX-License-Identifier: Apache-2.0
// The command line of tg-opt and of the pass tools as a library: mains only name what they link.
//
// Exit codes: 0 ok, 1 a diagnosed failure in the input, 2 a command line that makes no sense.
// IR goes to standard output, everything else to standard error.
#pragma once

#include <functional>

#include "ir/result.h"
#include "ir/target.h"

namespace tg {

/// What a program that links more than passes can add.
struct OptHooks {
  std::function<Result<Target>()> deviceTarget;  ///< answers `target=auto`; empty refuses it
};

/// tg-opt: any pipeline over a module.
int optMain(int argc, char** argv, const OptHooks& hooks = {});
/// tg-grad and its siblings: one pass, its options as flags.
int passToolMain(int argc, char** argv, const char* passName, const OptHooks& hooks = {});

}  // namespace tg
