// SPDX-License-Identifier: Apache-2.0
// Diagnostics: a message with a location and notes, and how it is shown.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/location.h"

namespace tg {

enum class Severity : uint8_t { error, warning, remark, note };
std::string_view name(Severity severity);

struct Diagnostic {
  Severity severity = Severity::error;
  Loc loc;
  std::string message;
  std::vector<Diagnostic> notes;
};

/// Receives diagnostics that do not end the work (warnings, remarks). Errors are returned in a `Result`.
using DiagnosticHandler = std::function<void(const Diagnostic&)>;

/// `file:line:col: error: message`, the source line, a caret, then the notes in the same form and
/// one line for each step of the origin chain.
std::string render(const Diagnostic& diagnostic);

}  // namespace tg
