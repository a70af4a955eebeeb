// SPDX-License-Identifier: Apache-2.0
// Implements --verify-diagnostics: compares comments such as `// expected-error@below {{part of the message}}` with the
// actual diagnostics.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/result.h"

namespace tg {

/// The expectations in one source text. Kinds are error, warning, remark and note. The place is the comment's own line,
/// or `@above`, `@below` (the nearest line without an expectation), `@+N`, `@-N` or `@unknown` (a diagnostic without a
/// place). A line may have several. Every error, warning and remark must be expected; notes need not be, but an
/// expected note must appear.
class ExpectedDiagnostics {
 public:
  ExpectedDiagnostics(std::string_view text, std::string fileName);
  /// Matches a diagnostic and its notes with the expectations.
  void see(const Diagnostic& diagnostic);
  void see(const Error& error) {
    for (const Diagnostic& diagnostic : error.diagnostics()) see(diagnostic);
  }
  /// All mismatches, one on each line; "" if there are none.
  std::string mismatches() const;

 private:
  struct Expectation {
    Severity severity;
    uint32_t line;  ///< 0 for a diagnostic without a place
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
