// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/config_entries.h"

#include <algorithm>
#include <cctype>
#include <cstdint>

#include <fmt/format.h>

#include "ir/text.h"

namespace tg {

namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";  // some editors write it

/// Parses the text of a config file from front to back.
class ConfigReader {
 public:
  ConfigReader(std::string_view text, const std::string& where) : text_(text), where_(where) {}

  Result<std::vector<ConfigEntry>> read() {
    if (const auto bad = std::ranges::find_if(text_, isControl); bad != text_.end()) {
      line_ += static_cast<int>(std::count(text_.begin(), bad, '\n'));
      return wrong(
          fmt::format("unexpected byte 0x{:02x}: this is not text", static_cast<unsigned char>(*bad)));
    }
    std::vector<ConfigEntry> out;
    while (skipLines()) {
      ConfigEntry entry;
      entry.line = line_;
      TG_TRY(entry.key, key());
      for (const ConfigEntry& before : out)
        if (before.key == entry.key)
          return wrong(fmt::format("'{}' stands in line {} already", entry.key, before.line));
      if (!take('=')) return wrong(fmt::format("expected '=' behind '{}'", entry.key));
      skipBlanks();
      if (take('[')) {
        TG_CHECK(list(entry.values));
      } else {
        entry.values.emplace_back();
        TG_CHECK(value(entry.values.back()));
      }
      TG_CHECK(lineEnd());
      out.push_back(std::move(entry));
    }
    return out;
  }

 private:
  bool atEnd() const { return at_ >= text_.size(); }
  char peek() const { return atEnd() ? '\0' : text_[at_]; }
  void skipBlanks() {
    while (peek() == ' ' || peek() == '\t' || peek() == '\r') ++at_;
  }
  /// TOML allows no control characters except blanks and line breaks.
  static bool isControl(char c) {
    return (static_cast<unsigned char>(c) < 0x20 &&
            std::string_view("\t\r\n").find(c) == std::string_view::npos) ||
           c == 0x7f;
  }
  bool take(char c) {
    skipBlanks();
    if (atEnd() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void skipComment() {
    if (peek() == '#')
      while (!atEnd() && peek() != '\n') ++at_;
  }
  /// Skips blank lines and comments. Returns whether anything follows.
  bool skipLines() {
    while (true) {
      skipBlanks();
      skipComment();
      if (peek() != '\n' || atEnd()) return !atEnd();
      ++at_;
      ++line_;
    }
  }
  Result<void> lineEnd() {
    skipBlanks();
    skipComment();
    if (atEnd() || peek() == '\n') return {};
    return wrong("expected the end of the line; text goes in quotes");
  }
  Error wrong(const std::string& why) const { return fail("{}:{}: {}", where_, line_, why); }

  Result<std::string> key() {
    if (peek() == '"' || peek() == '\'') {
      std::string name;
      TG_CHECK(value(name));
      return name;
    }
    const size_t begin = at_;
    while (std::isalnum(static_cast<unsigned char>(peek())) || peek() == '-' || peek() == '_') ++at_;
    if (at_ == begin) return wrong("expected a line such as steps = 200");
    return std::string(text_.substr(begin, at_ - begin));
  }

  Result<void> value(std::string& out) {
    skipBlanks();
    if (peek() == '"') return basicString(out);
    if (peek() == '\'') return literalString(out);
    const size_t begin = at_;
    while (!atEnd() && std::string_view(" \t\r\n,]#").find(peek()) == std::string_view::npos) ++at_;
    if (at_ == begin) return wrong("expected a value");
    out = text_.substr(begin, at_ - begin);
    return {};
  }
  Result<void> list(std::vector<std::string>& out) {
    do {
      skipLines();
      if (peek() == ']') break;
      out.emplace_back();
      TG_CHECK(value(out.back()));
      skipLines();
    } while (take(','));
    return take(']') ? Result<void>() : wrong("expected ']' at the end of the list");
  }
  Result<void> literalString(std::string& out) {
    const size_t end = text_.find_first_of("'\n", at_ + 1);
    if (end == std::string_view::npos || text_[end] != '\'') return wrong("the quotes are not closed");
    out = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return {};
  }
  Result<void> basicString(std::string& out) {
    for (++at_; !atEnd() && peek() != '\n'; ++at_) {
      if (peek() == '"') {
        ++at_;
        return {};
      }
      if (peek() == '\\') {
        TG_CHECK(escape(out));
      } else {
        out += peek();
      }
    }
    return wrong("the quotes are not closed");
  }
  /// Leaves the position at the last character of the escape.
  Result<void> escape(std::string& out) {
    static constexpr std::string_view kNames = "btnfr\"\\", kMeant = "\b\t\n\f\r\"\\";
    ++at_;
    const char c = peek();
    if (const size_t known = kNames.find(c); !atEnd() && known != std::string_view::npos) {
      out += kMeant[known];
      return {};
    }
    const size_t digits = c == 'u' ? 4 : c == 'U' ? 8 : 0;
    const std::string_view hex = text_.substr(std::min(at_ + 1, text_.size()), digits);
    const auto code = numberIn<uint32_t>(hex, 16);
    if (!code || hex.size() != digits || *code > 0x10ffff)
      return wrong(R"(unknown escape; there are \b \t \n \f \r \" \\ \uXXXX \UXXXXXXXX)");
    addUtf8(out, *code);
    at_ += digits;
    return {};
  }
  static void addUtf8(std::string& out, uint32_t code) {
    auto more = [&](int shift) { out += static_cast<char>(0x80 | (code >> shift & 0x3f)); };
    if (code < 0x80) {
      out += static_cast<char>(code);
    } else if (code < 0x800) {
      out += static_cast<char>(0xc0 | code >> 6);
      more(0);
    } else if (code < 0x10000) {
      out += static_cast<char>(0xe0 | code >> 12);
      more(6), more(0);
    } else {
      out += static_cast<char>(0xf0 | code >> 18);
      more(12), more(6), more(0);
    }
  }

  std::string_view text_;
  const std::string& where_;
  size_t at_ = 0;
  int line_ = 1;
};

}  // namespace

Result<std::vector<ConfigEntry>> parseConfig(std::string_view text, const std::string& where) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  return ConfigReader(text, where).read();
}

}  // namespace tg
