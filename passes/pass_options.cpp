// SPDX-License-Identifier: Apache-2.0
#include "passes/pass_options.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/parser.h"
#include "ir/rate_schedule.h"
#include "ir/text.h"

namespace tg {

namespace option_text {

std::string show(bool value) { return value ? "true" : "false"; }
std::string show(int64_t value) { return std::to_string(value); }
std::string show(double value) { return fmt::format("{}", value); }

// Without quotes if the pipeline's scanner reads it as one value.
std::string show(const std::string& value) {
  auto bare = [](unsigned char c) {
    return std::isalnum(c) || std::string_view("_.*?|/@:+-").find(c) != std::string::npos;
  };
  if (!value.empty() && std::ranges::all_of(value, bare)) return value;
  std::string out = "\"";
  for (char c : value) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

std::string show(const Attr& value) { return value.isNumber() ? show(value.number()) : value.str(); }

bool read(const Attr& attr, bool& out) {
  if (attr.kind != Attr::Kind::boolean) return false;
  out = attr.integer != 0;
  return true;
}

bool read(const Attr& attr, int64_t& out) {
  if (attr.kind != Attr::Kind::integer) return false;
  out = attr.integer;
  return true;
}

bool read(const Attr& attr, double& out) {
  if (!attr.isNumber()) return false;
  out = attr.number();
  return true;
}

bool read(const Attr& attr, std::string& out) {
  if (attr.kind != Attr::Kind::string && attr.kind != Attr::Kind::word) return false;
  out = attr.text;
  return true;
}

bool read(const Attr& attr, Attr& out) {
  if (!checkRateSchedule(attr)) return false;
  out = attr;
  return true;
}

}  // namespace option_text

Error unknownOption(std::string_view pass, std::string_view option, const std::vector<OptionInfo>& known) {
  if (known.empty()) return fail("{} has no options, but '{}' is given", pass, option);
  std::vector<std::string> names;
  for (const OptionInfo& info : known) names.push_back(info.name);
  std::string near = nearestName(option, names);
  return fail("{} has no option '{}'{} (options: {})", pass, option,
              near.empty() ? "" : fmt::format("; did you mean '{}'?", near), fmt::join(names, ", "));
}

Error badOption(std::string_view pass, const OptionInfo& option, std::string_view value) {
  return fail("{}: option '{}' takes {} {}, not '{}'", pass, option.name, option.type == "int" ? "an" : "a",
              option.type, value);
}

static std::string unquoted(std::string_view text) {
  if (text.size() < 2 || text.front() != '"' || text.back() != '"') return std::string(text);
  std::string out;
  for (size_t i = 1; i + 1 < text.size(); ++i) {
    if (text[i] == '\\' && i + 2 < text.size()) ++i;
    out += text[i];
  }
  return out;
}

Result<Attr> parsePassOption(const PassInfo& pass, const OptionInfo& option, std::string_view text) {
  if (option.type == "bool") {
    for (std::string_view yes : {"true", "1", "on", "yes"})
      if (text == yes) return Attr::boolean(true);
    for (std::string_view no : {"false", "0", "off", "no"})
      if (text == no) return Attr::boolean(false);
    return badOption(pass.name, option, text);
  }
  if (option.type == "int") {
    const auto value = numberIn<int64_t>(text);
    if (!value) return badOption(pass.name, option, text);
    return Attr::of(*value);
  }
  if (option.type == "double") {
    const auto value = numberIn<double>(text);
    if (!value || !std::isfinite(*value)) return badOption(pass.name, option, text);
    return Attr::of(*value);
  }
  if (option.type == "rate") {
    auto schedule = parseAttr(unquoted(text));
    if (!schedule || schedule->kind == Attr::Kind::word) return badOption(pass.name, option, text);
    if (auto good = checkRateSchedule(*schedule); !good)
      return fail("{}: option '{}': {}", pass.name, option.name, good.error().message());
    return schedule;
  }
  return Attr::string(unquoted(text));
}

}  // namespace tg
