// SPDX-License-Identifier: Apache-2.0
// Standard output and standard error of the tools, and what becomes of errors nobody has handled.
#pragma once

#include <functional>
#include <string>

namespace tg {

/// Runs a tool's `body` and returns its exit code. Errors begin with `tool` as it is by then: a verb may have been added.
///
/// Standard error that cannot be written (closed, a full disk, a reader that is gone) is passed over.
/// Standard output that cannot be written makes the exit code 1 and is told once; where its reader is gone,
/// as in `tg-run inspect RUN | head`, it is the code alone. Memory that runs out is one error.
int runTool(const std::string& tool, const std::function<int()>& body);

/// Why standard output cannot be written any more; "" while it can.
std::string lostOutput();

}  // namespace tg
