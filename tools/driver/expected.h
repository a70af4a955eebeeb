// SPDX-License-Identifier: Apache-2.0
// --verify-diagnostics: `// expected-error@below {{part of the message}}` against what was said.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/result.h"

namespace tg {

/// The expectations of one source text. Kinds are error, warning, remark and note; places are the line
/// itself, `@above`, `@below` (the nearest line without an expectation), `@+N`, `@-N` and `@unknown`
/// (a diagnostic without a place). Several may share a line. Errors, warnings and remarks must all be
/// expected; a note may be left out, but one that is expected must appear.
class ExpectedDiagnostics {
 public:
  ExpectedDiagnostics(std::string_view text, std::string fileName);
  /// Compares a diagnostic and its notes.
  void see(const Diagnostic& diagnostic);
  void see(const Error& error) {
    for (const Diagnostic& diagnostic : error.diagnostics()) see(diagnostic);
  }
  /// Everything that did not match, one line each; "" when all did.
  std::string mismatches() const;

 private:
  struct Expectation {
    Severity severity;
    uint32_t line;  ///< 0: a diagnostic without a place
    std::string text;
    uint32_t writtenAt;
    bool met = false;
  };
  void scanLine(std::string_view line, uint32_t number);
  bool match(const Diagnostic& diagnostic);

  std::string fileName_;
  std::vector<Expectation> expected_;
  std::string unexpected_;
};

}  // namespace tg
