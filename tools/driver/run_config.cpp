// SPDX-License-Identifier: Apache-2.0
#include "tools/driver/run_config.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <istream>
#include <map>
#include <set>

#include <fmt/format.h>

#include "ir/file_io.h"
#include "ir/find.h"
#include "ir/text.h"
#include "passes/pass.h"
#include "runtime/train/run_files.h"
#include "runtime/train/source.h"
#include "tools/driver/cli.h"

namespace tg {

namespace {

namespace fs = std::filesystem;

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
    for (size_t at = part.find('='); at != std::string::npos; at = part.find('=', at + 1)) {
      const size_t source = part.find_first_not_of(' ', at + 1);
      if (source != std::string::npos && part[source] == '@')
        return part.substr(0, source + 1) + absolutePath(part.substr(source + 1));
    }
    return part;
  };
  return listText(splitBindings(text), absolute, ",");
}

bool isPlain(const std::string& value) {
  if (value == "true" || value == "false") return true;
  const auto number = numberIn<double>(value);
  const bool digit = !value.empty() && std::isdigit(static_cast<unsigned char>(value.back()));
  return number && digit && std::isfinite(*number);
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
      if (option->empty()) taken_[option->get_single_name()] = file;
      out.push_back({{}, entry.key, std::move(entry.values)});
    }
    return out;
  }
  /// The file that set an option; "" if none did.
  std::string fileOf(const std::string& option) const {
    const std::string* file = valueIn(taken_, option);
    return file ? *file : "";
  }

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
  mutable std::map<std::string, std::string> taken_;  ///< options, and the file that set each
};

}  // namespace

std::string fromAnyFolder(const std::string& option, const std::string& value) {
  static const std::set<std::string> paths = {"FILE",   "weights", "init-from",
                                              "tuning", "out",     "load-pass-plugin"};
  if (option == "data" || option == "set") return absoluteBindings(value);
  if (option == "target") return isTargetFile(value) ? absolutePath(value) : value;
  // A FILE that does not exist is the name of a model.
  const bool word =
      value == "-" || (option == "tuning" && value == "auto") || (option == "FILE" && !isThere(value));
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

void useRunConfig(CLI::App& app) { app.config_formatter(std::make_shared<RunConfigFormat>(app)); }

std::string configOf(const CLI::App& app, std::string_view message) {
  const auto* format = dynamic_cast<const RunConfigFormat*>(app.get_config_formatter().get());
  if (!format || !message.starts_with("--")) return "";
  const std::string option(message.substr(2, message.find_first_of("=: ") - 2));
  const std::string file = format->fileOf(option);
  return file.empty() ? "" : file + ": ";
}

}  // namespace tg
