// SPDX-License-Identifier: Apache-2.0
// Standard output and standard error of the tools, and the handling of uncaught errors.
#pragma once

#include <atomic>
#include <functional>
#include <string>

namespace tg {

/// Runs a tool's `body` and returns its exit code. Error messages begin with the value of `tool` at that time, to which
/// a verb may have been added.
///
/// Failures to write standard error (closed, a full disk, a reader that is gone) are ignored. A failure to write
/// standard output makes the exit code 1 and is reported once; if its reader is gone, as in `tg-run inspect RUN |
/// head`, only the exit code says so. Running out of memory is reported as an error.
int runTool(const std::string& tool, const std::function<int()>& body);

/// Set by the signal that asks a tool to end: from then on, output waits 5 s in sum for a reader that takes nothing.
extern std::atomic<bool> endAsked;

/// The reason why standard output cannot be written any more; "" while it can.
std::string lostOutput();

}  // namespace tg
