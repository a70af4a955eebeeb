// SPDX-License-Identifier: Apache-2.0
#include "tools/driver/run_config.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <istream>
#include <set>

#include <fmt/format.h>

#include "ir/text.h"
#include "passes/pass.h"
#include "runtime/train/run_files.h"
#include "runtime/train/source.h"
#include "tools/driver/cli.h"

namespace tg {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";  // some editors write it

std::string absolutePath(const std::string& path) {
  std::error_code error;
  const fs::path full = fs::absolute(path, error);
  return error || path.empty() ? path : full.lexically_normal().string();
}

/// Makes paths absolute in bindings such as `x=@x.npy,y=?x4xf32=@y.bin/255`, `text:FILE`, `tokens:a.bin,shards/*.bin`,
/// also after train= or val=.
std::string absoluteBindings(const std::string& text) {
  for (const char* role : {"train=", "val="})
    if (text.starts_with(role)) return role + absoluteBindings(text.substr(std::string_view(role).size()));
  if (text.starts_with("text:")) return "text:" + absolutePath(text.substr(5));
  if (text.starts_with("tokens:"))
    return "tokens:" + listText(CLI::detail::split(text.substr(7), ','), absolutePath, ",");
  auto absolute = [](const std::string& part) {
    const size_t at = part.find("=@");
    return at == std::string::npos ? part : part.substr(0, at + 2) + absolutePath(part.substr(at + 2));
  };
  return listText(splitBindings(text), absolute, ",");
}

bool isPlain(const std::string& value) {
  if (value == "true" || value == "false") return true;
  double number = 0;
  const char *begin = value.data(), *end = begin + value.size();
  auto [at, status] = std::from_chars(begin, end, number);
  const bool digit = !value.empty() && std::isdigit(static_cast<unsigned char>(value.back()));
  return status == std::errc() && at == end && digit && std::isfinite(number);
}

/// A value as a basic string of TOML.
std::string quoted(const std::string& value) {
  std::string out = "\"";
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      out += {'\\', c};
    else if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (byte < 0x20 || byte == 0x7f)
      out += fmt::format("\\u{:04x}", byte);
    else
      out += c;
  }
  return out + '"';
}

std::string valueText(const std::string& value) { return isPlain(value) ? value : quoted(value); }

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
    uint32_t code = 0;
    const std::string_view hex = text_.substr(std::min(at_ + 1, text_.size()), digits);
    auto [at, status] = std::from_chars(hex.data(), hex.data() + hex.size(), code, 16);
    if (digits == 0 || hex.size() != digits || status != std::errc() || at != hex.data() + digits ||
        code > 0x10ffff)
      return wrong(R"(unknown escape; there are \b \t \n \f \r \" \\ \uXXXX \UXXXXXXXX)");
    addUtf8(out, code);
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

/// Replaces CLI11's own reader, which ends a value at '#' and knows no escapes.
class RunConfigFormat : public CLI::Config {
 public:
  explicit RunConfigFormat(const CLI::App& app) : app_(app) {}

  std::string to_config(const CLI::App* app, bool, bool, std::string) const override {
    return configText(*app, "-");
  }
  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    const std::string file = app_.get_config_ptr()->as<std::string>();
    std::string text;
    std::getline(input, text, '\0');  // /dev/zero has no end
    if (!input.eof()) refuse(fail("{} is not text: byte {} is zero", file, text.size()));
    if (auto whole = configHashes(text, file); !whole) refuse(whole.error());
    auto entries = parseConfig(text, file);
    if (!entries) refuse(entries.error());
    std::vector<CLI::ConfigItem> out;
    for (ConfigEntry& entry : *entries) {
      const CLI::Option* option = optionOf(entry.key);
      if (!option) refuse(fail(unknown(entry, file)));
      if (entry.values.size() > static_cast<size_t>(std::max(1, option->get_items_expected_max())))
        refuse(fail("{}:{}: '{}' takes one value", file, entry.line, entry.key));
      if (typedInstead(*option)) continue;
      if (option->empty()) taken_.insert(option->get_single_name());
      out.push_back({{}, entry.key, std::move(entry.values)});
    }
    return out;
  }
  /// Whether the file set an option.
  bool gave(const std::string& option) const { return taken_.contains(option); }

 private:
  [[noreturn]] static void refuse(const Error& error) { throw CLI::ConfigError(error.message()); }
  const CLI::Option* optionOf(const std::string& key) const {
    const CLI::Option* option = app_.get_option_no_throw("--" + key);
    if (!option) option = app_.get_option_no_throw(key);
    return option && option->get_configurable() ? option : nullptr;
  }
  std::string unknown(const ConfigEntry& entry, const std::string& file) const {
    std::vector<std::string> known;
    for (const CLI::Option* option : app_.get_options())
      if (option->get_configurable()) known.push_back(option->get_single_name());
    const std::string near = nearestName(entry.key, known);
    return fmt::format("{}:{}: unknown option '{}'{}", file, entry.line, entry.key,
                       near.empty() ? "" : fmt::format("; did you mean '{}'?", near));
  }
  static bool typedInstead(const CLI::Option& option) {
    const std::set<CLI::Option*> others = option.get_excludes();
    return std::ranges::any_of(others, [](CLI::Option* other) { return !other->empty(); });
  }

  const CLI::App& app_;
  mutable std::set<std::string> taken_;
};

}  // namespace

std::string fromAnyFolder(const std::string& option, const std::string& value) {
  static const std::set<std::string> paths = {"FILE", "weights",     "init-from",       "tuning",
                                              "out",  "emit-module", "load-pass-plugin"};
  if (option == "data" || option == "set") return absoluteBindings(value);
  if (option == "target") return isTargetFile(value) ? absolutePath(value) : value;
  // A FILE that does not exist is the name of a model.
  std::error_code error;
  const bool word = value == "-" || (option == "tuning" && value == "auto") ||
                    (option == "FILE" && !fs::exists(value, error));
  return paths.contains(option) && !word ? absolutePath(value) : value;
}

std::string configText(const CLI::App& app, const std::string& model) {
  std::string text;
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_single_name();
    // The run is where this is written, and the module is emitted once, when the run starts.
    if (!option->get_configurable() || option->empty() || name == "run-dir" || name == "emit-module")
      continue;
    std::string values = listText(
        option->results(), [&](const std::string& value) { return valueText(fromAnyFolder(name, value)); });
    if (name == "FILE" && option->results().front() == "-") values = quoted(model);
    const bool list = option->results().size() > 1;
    text += fmt::format("{}={}{}{}\n", name, list ? "[" : "", values, list ? "]" : "");
  }
  // A model on standard input may be given without FILE.
  if (app.count("FILE") == 0) text = fmt::format("FILE={}\n", quoted(model)) + text;
  return text;
}

Result<std::vector<ConfigEntry>> parseConfig(std::string_view text, const std::string& where) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  return ConfigReader(text, where).read();
}

void useRunConfig(CLI::App& app) { app.config_formatter(std::make_shared<RunConfigFormat>(app)); }

std::string configOf(const CLI::App& app, std::string_view message) {
  const auto* format = dynamic_cast<const RunConfigFormat*>(app.get_config_formatter().get());
  if (!format || !message.starts_with("--")) return "";
  const std::string option(message.substr(2, message.find_first_of("=: ") - 2));
  return format->gave(option) ? app.get_config_ptr()->as<std::string>() + ": " : "";
}

}  // namespace tg
