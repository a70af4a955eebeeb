// SPDX-License-Identifier: Apache-2.0
#include "tools/driver/expected.h"

#include <charconv>
#include <optional>

#include <fmt/format.h>

namespace tg {

namespace {

constexpr std::string_view kMark = "expected-";
constexpr uint32_t kAbove = UINT32_MAX - 1, kBelow = UINT32_MAX;

bool takeWord(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

std::optional<Severity> takeSeverity(std::string_view& text) {
  for (Severity severity : {Severity::error, Severity::warning, Severity::remark, Severity::note})
    if (takeWord(text, name(severity))) return severity;
  return {};
}

/// Parses `@below`, `@+2`, … or nothing, and returns the absolute line.
std::optional<uint32_t> takePlace(std::string_view& text, uint32_t line) {
  while (takeWord(text, " ")) {
  }
  if (!takeWord(text, "@")) return line;
  if (takeWord(text, "above")) return kAbove;
  if (takeWord(text, "below")) return kBelow;
  if (takeWord(text, "unknown")) return 0;
  bool minus = text.starts_with('-');
  if (!minus && !text.starts_with('+')) return {};
  uint32_t distance = 0;
  auto [end, error] = std::from_chars(text.data() + 1, text.data() + text.size(), distance);
  if (error != std::errc() || distance >= kAbove || (minus && distance >= line)) return {};
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return minus ? line - distance : line + distance;
}

}  // namespace

ExpectedDiagnostics::ExpectedDiagnostics(std::string_view text, std::string fileName)
    : fileName_(std::move(fileName)) {
  size_t last = text.rfind(kMark);
  uint32_t number = 1;
  for (size_t begin = 0; last != std::string_view::npos && begin <= last; ++number) {
    size_t end = std::min(text.find('\n', begin), text.size());
    scanLine(text.substr(begin, end - begin), number);
    begin = end + 1;
  }
  // @above and @below skip lines that have expectations themselves.
  auto holds = [&](uint32_t line) {
    for (const Expectation& other : expected_)
      if (other.writtenAt == line) return true;
    return false;
  };
  for (Expectation& expectation : expected_) {
    if (expectation.line != kAbove && expectation.line != kBelow) continue;
    uint32_t line = expectation.writtenAt;
    uint32_t step = expectation.line == kBelow ? 1 : -1;
    do line += step;
    while (line > 0 && holds(line));
    expectation.line = line;
  }
}

void ExpectedDiagnostics::scanLine(std::string_view line, uint32_t number) {
  size_t comment = line.find("//");
  if (comment == std::string_view::npos) return;
  std::string_view rest = line.substr(comment);
  for (size_t at = rest.find(kMark); at != std::string_view::npos; at = rest.find(kMark)) {
    rest.remove_prefix(at + kMark.size());
    auto severity = takeSeverity(rest);
    if (!severity) continue;  // ordinary text that contains the word
    auto place = takePlace(rest, number);
    while (takeWord(rest, " ")) {
    }
    size_t close = rest.find("}}");
    if (!place || !rest.starts_with("{{") || close == std::string_view::npos) {
      unexpected_ += fmt::format("{}:{}: error: malformed expectation: expected-{}[@PLACE] {{{{text}}}}\n",
                                 fileName_, number, name(*severity));
      continue;
    }
    expected_.push_back({*severity, *place, std::string(rest.substr(2, close - 2)), number});
    rest.remove_prefix(close + 2);
  }
}

bool ExpectedDiagnostics::match(const Diagnostic& diagnostic) {
  const LocNode* place = placeOf(diagnostic.loc);
  bool here = place && place->file && place->file->name == fileName_;
  uint32_t line = here ? place->line : 0;
  for (Expectation& expectation : expected_) {
    if (expectation.met || expectation.severity != diagnostic.severity || expectation.line != line) continue;
    if (diagnostic.message.find(expectation.text) == std::string::npos) continue;
    expectation.met = true;
    return true;
  }
  return false;
}

void ExpectedDiagnostics::see(const Diagnostic& diagnostic) {
  if (!match(diagnostic) && diagnostic.severity != Severity::note) {
    std::string where = locString(diagnostic.loc);
    unexpected_ += fmt::format("{}: error: unexpected {}: {}\n", where.empty() ? fileName_ : where,
                               name(diagnostic.severity), diagnostic.message);
  }
  for (const Diagnostic& note : diagnostic.notes) see(note);
}

std::string ExpectedDiagnostics::mismatches() const {
  std::string out = unexpected_;
  for (const Expectation& expectation : expected_) {
    if (expectation.met) continue;
    std::string where =
        expectation.line == 0 ? "without a place" : fmt::format("on line {}", expectation.line);
    out += fmt::format("{}:{}: error: expected {} {} was not produced: {}\n", fileName_,
                       expectation.writtenAt, name(expectation.severity), where, expectation.text);
  }
  return out;
}

}  // namespace tg
