// SPDX-License-Identifier: Apache-2.0
#include "tools/manual/card.h"

#include <algorithm>
#include <cctype>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/text.h"
#include "tools/driver/cli.h"

namespace tg {

namespace {

std::vector<std::string> splitAt(std::string_view text, char mark) {
  std::vector<std::string> out = splitText(text, mark);
  std::erase(out, "");
  return out;
}

/// The choices with which a help text may begin: `adam | adamw: …`.
std::vector<std::string> choicesIn(std::string_view help) {
  std::vector<std::string> out;
  while (true) {
    size_t end = 0;
    while (end < help.size() && (std::isalnum(static_cast<unsigned char>(help[end])) || help[end] == '-'))
      ++end;
    if (end == 0) return {};
    out.emplace_back(help.substr(0, end));
    if (help.substr(end, 3) != " | ") break;
    help.remove_prefix(end + 3);
  }
  return out.size() > 1 ? out : std::vector<std::string>();
}

/// The choices of an option: the set of its CLI::IsMember, which is described as {a,b}, or a placeholder `a|b`.
std::vector<std::string> choicesOf(const CLI::Option& option) {
  std::string type = option.get_type_name();
  size_t open = type.find('{'), close = type.find('}');
  if (open != std::string::npos && close != std::string::npos)
    return splitAt(std::string_view(type).substr(open + 1, close - open - 1), ',');
  const std::string& text = option.get_option_text();
  bool words = text.find('|') != std::string::npos && std::islower(static_cast<unsigned char>(text[0]));
  return words ? splitAt(text, '|') : choicesIn(option.get_description());
}

std::string valueOf(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return "";
  const std::string& text = option.get_option_text();
  if (!text.empty() && text != " ") return text;
  std::string type = option.get_type_name();
  if (type.starts_with("INT") || type.starts_with("UINT")) return "N";
  return type.starts_with("FLOAT") ? "X" : "TEXT";
}

Words wordsOf(const OptionCard& card) {
  if (card.value.empty()) return Words::none;
  if (!card.choices.empty()) return Words::choices;
  auto is = [&](std::initializer_list<std::string_view> values) { return contains(values, card.value); };
  if (is({"FILE", "PATH", "RUN", "PATH...", "RUN..."})) return Words::files;
  if (is({"DIR"})) return Words::folders;
  if (is({"TARGET"})) return Words::targets;
  if (is({"DEVICE"})) return Words::devices;
  if (is({"PASS", "PASS,...", "PASSES"})) return Words::passes;
  if (is({"DATA"}) || card.value.starts_with("NAME=")) return Words::spec;
  return Words::none;
}

OptionCard optionCard(const CLI::Option& option) {
  OptionCard card;
  for (const std::string& name : option.get_snames()) card.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) card.names.push_back("--" + name);
  card.help = option.get_description();
  card.group = option.get_group();
  card.fallback = option.get_default_str();
  card.required = option.get_required();
  card.choices = choicesOf(option);
  card.value = valueOf(option);
  if (card.names.empty()) {
    card.names = {option.get_name(true)};
    card.many = option.get_items_expected_max() > 1;
    card.choices.clear();
    card.words = Words::files;
    return card;
  }
  card.words = wordsOf(card);
  return card;
}

void describe(ToolCard& card, const CLI::App& app) {
  card.about = app.get_description();
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    OptionCard one = optionCard(*option);
    (option->nonpositional() ? card.options : card.arguments).push_back(std::move(one));
  }
}

/// A sentence as a phrase: "Runs passes." becomes "runs passes".
std::string phrase(std::string text) {
  if (text.ends_with('.')) text.pop_back();
  if (text.size() > 1 && std::islower(static_cast<unsigned char>(text[1])))
    text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  return text;
}

}  // namespace

std::string OptionCard::usage() const {
  const std::string text = fmt::format("{}", fmt::join(names, ", "));
  if (!names.front().starts_with('-')) return text + (many ? "..." : "");
  if (value.empty()) return text;
  return text + (bare ? fmt::format("[={}]", value) : names.back().size() == 2 ? " " + value : "=" + value);
}

std::string OptionCard::meaning() const {
  std::string out = help;
  if (!choices.empty() && value.find('|') == std::string::npos && out.find(choices[0]) == std::string::npos)
    out += fmt::format(": {}", fmt::join(choices, ", "));
  if (!fallback.empty()) out += fmt::format(" (default: {})", fallback);
  return out + (required ? " (required)" : "");
}

std::string ToolCard::synopsis() const {
  std::string text = name + " [OPTION]...";
  for (const OptionCard& argument : arguments)
    text += argument.required ? " " + argument.usage() : fmt::format(" [{}]", argument.usage());
  return text;
}

std::vector<std::string> ToolCard::groups() const {
  std::vector<std::string> out;
  for (const OptionCard& option : options) addOnce(out, option.group);
  return out;
}

ToolCard cardOf(const VerbInfo& verb) {
  OpenVerb open = openVerb(verb);
  ToolCard card{fmt::format("tg-run {}", verb.name),
                fmt::format("tg-run-{}", verb.name),
                std::string(verb.summary),
                "",
                {},
                {}};
  describe(card, *open.app);
  return card;
}

ToolCard cardOf(const PassInfo* only) {
  std::shared_ptr<const CLI::App> app = describedCommand(only);
  ToolCard card{
      app->get_name(), app->get_name(), phrase(only ? only->summary : app->get_description()), "", {}, {}};
  describe(card, *app);
  // CLI11 accepts several, but only for an error message.
  for (OptionCard& argument : card.arguments) argument.many = false;
  for (OptionCard& option : card.options) {
    const OptionInfo* info = only ? only->option(std::string_view(option.names.back()).substr(2)) : nullptr;
    if (info && !info->bare.empty()) option.value = "TEXT", option.bare = true;
    const PassInfo* pass = only ? nullptr : findPass(std::string_view(option.names.back()).substr(2));
    bool flag = pass && option.names.back() == "--" + pass->name;
    if (!flag || pass->options.empty()) continue;
    option.value = "OPTIONS";
    option.bare = true;
    option.words = Words::options;
  }
  return card;
}

std::vector<ToolCard> passTools() {
  std::vector<ToolCard> out{cardOf(nullptr)};
  for (const PassInfo& pass : passes())
    if (!pass.tool.empty()) out.push_back(cardOf(&pass));
  return out;
}

const std::vector<ExitStatus>& exitCodes() {
  static const std::vector<ExitStatus> rows = {
      {"0", "Done."},
      {"1", "The input is wrong: text, data, files."},
      {"2", "The command line is wrong."},
      {"3", "Numbers are wrong: a comparison failed, or a loss is not finite."},
      {"4", "There is no device, or it failed."},
      {"129, 130, 143", "Interrupted (SIGHUP, Ctrl-C, SIGTERM), after saving."},
  };
  return rows;
}

const std::vector<Variable>& environment() {
  static const std::vector<Variable> rows = {
      {"TENSORGRAD_CACHE", "Folder of compiled shaders, pipelines and tuned schedules; empty: no caches."},
      {"XDG_CACHE_HOME",
       "Without TENSORGRAD_CACHE, the folder is its subfolder tensorgrad (default ~/.cache/tensorgrad)."},
      {"LP_NUM_THREADS",
       "Threads of Mesa's CPU device. If it is not set, tg-run sets it to 0 for tiny models and says so."},
      {"CI", "If set, train prints lines instead of a progress bar, also on terminals."},
      {"VK_DRIVER_FILES, VK_ICD_FILENAMES", "Read by the Vulkan loader: the drivers to use."},
  };
  return rows;
}

}  // namespace tg
