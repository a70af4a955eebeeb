// SPDX-License-Identifier: Apache-2.0
#include "ir/diagnostic.h"

#include <fmt/format.h>

#include "ir/result.h"

namespace tg {

std::string_view name(Severity severity) {
  switch (severity) {
  case Severity::error: return "error";
  case Severity::warning: return "warning";
  case Severity::remark: return "remark";
  case Severity::note: return "note";
  }
  return "";
}

/// The text of line `line` (from 1) of a source, without its newline.
static std::string_view sourceLine(const std::string& text, uint32_t line) {
  size_t begin = 0;
  for (uint32_t at = 1; at < line; ++at) {
    size_t newline = text.find('\n', begin);
    if (newline == std::string::npos) return {};
    begin = newline + 1;
  }
  size_t end = text.find('\n', begin);
  return std::string_view(text).substr(begin, end == std::string::npos ? std::string::npos : end - begin);
}

// A longer line is machine-made; showing it would bury the message.
constexpr size_t kLongestLine = 240;

// A longer message quotes something machine-made; its begin and end tell what is wrong and why.
constexpr size_t kLongestMessage = 2000;

static std::string shortened(const std::string& message) {
  if (message.size() <= kLongestMessage) return message;
  constexpr size_t kHalf = kLongestMessage / 2;
  return message.substr(0, kHalf) + fmt::format(" … {} bytes … ", message.size() - 2 * kHalf) +
         message.substr(message.size() - kHalf);
}

static void renderOne(const Diagnostic& diagnostic, std::string& out) {
  std::string where = locString(diagnostic.loc);
  out += fmt::format("{}{}{}: {}\n", where, where.empty() ? "" : ": ", name(diagnostic.severity),
                     shortened(diagnostic.message));
  const LocNode* place = placeOf(diagnostic.loc);
  if (place && place->line > 0) {
    std::string_view line = sourceLine(place->file->text, place->line);
    if (!line.empty() && line.size() <= kLongestLine) {
      std::string caret;
      for (uint32_t i = 1; i < place->col && i <= line.size(); ++i) caret += line[i - 1] == '\t' ? '\t' : ' ';
      out += fmt::format("{}\n{}^\n", line, caret);
    }
  }
  std::string chain;
  for (const LocNode* node = diagnostic.loc.get(); node && !node->file; node = node->origin.get())
    chain += (chain.empty() ? "" : " of ") + node->how;
  if (!chain.empty()) out += fmt::format("note: this op is the {} of the line above\n", chain);
  for (const Diagnostic& note : diagnostic.notes) renderOne(note, out);
}

std::string render(const Diagnostic& diagnostic) {
  std::string out;
  renderOne(diagnostic, out);
  return out;
}

std::string Error::str() const {
  std::string out;
  for (const Diagnostic& diagnostic : all_) out += render(diagnostic);
  return out;
}

}  // namespace tg
