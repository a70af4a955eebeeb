// SPDX-License-Identifier: Apache-2.0
// Zsh completion, with the options as specifications for _arguments.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/text.h"
#include "tools/manual/manual.h"

namespace tg {

namespace {

/// Escapes a description or message for a specification, in which some characters have a meaning.
std::string plain(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return insideQuotes(out);
}

/// The name of a function, such as `_tg_opt_append_adam`.
std::string functionName(const std::string& tool, const std::string& what) {
  std::string out = "_" + tool + "_" + what;
  std::ranges::replace(out, '-', '_');
  return out;
}

/// The action of _arguments that completes a value, or the name of one of the functions below.
std::string action(const OptionCard& option, const std::string& tool) {
  switch (option.words) {
  case Words::files:
  case Words::spec: return "_files";
  case Words::folders: return "_files -/";
  case Words::choices:
  case Words::devices: return fmt::format("({})", fmt::join(offeredWords(option), " "));
  case Words::targets: return functionName(tool, "targets");
  case Words::passes: return functionName(tool, "passes");
  case Words::options: return functionName(tool, option.names.back().substr(2));
  case Words::none: break;
  }
  return " ";
}

/// The functions that the actions name.
std::string functions(const ToolCard& card, const std::string& tool) {
  OptionCard any;
  any.words = Words::targets;
  std::string out = fmt::format(
      "{}() {{\n  _alternative 'targets:target:({})' 'files:file:_files'\n}}\n\n{}() {{\n  _values -s , pass",
      functionName(tool, "targets"), fmt::join(offeredWords(any), " "), functionName(tool, "passes"));
  for (const PassInfo& pass : passes())
    out += fmt::format(" \\\n    '{}[{}]'", pass.name, plain(pass.summary));
  out += "\n}\n\n";
  for (const OptionCard& option : card.options) {
    if (option.words != Words::options) continue;
    const PassInfo& pass = *findPass(std::string_view(option.names.back()).substr(2));
    out += fmt::format("{}() {{\n  _values -s , option", functionName(tool, pass.name));
    for (const OptionInfo& info : pass.options)
      out += fmt::format(" \\\n    '{}[{}]:{}'", info.name, plain(info.help), info.type);
    out += "\n}\n\n";
  }
  return out;
}

std::string specs(const ToolCard& tool, const std::string& program) {
  std::string out;
  for (const OptionCard& option : tool.options) {
    std::string mark =
        option.value.empty() ? "" : ":" + plain(option.value) + ":" + insideQuotes(action(option, program));
    for (const std::string& name : option.names) {
      std::string form = name;
      if (option.bare)
        form += "=-", mark.insert(0, mark.starts_with("::") ? "" : ":");
      else if (!option.value.empty())
        form += name.starts_with("--") ? "=" : "+";
      out += fmt::format(" \\\n      '*{}[{}]{}'", form, plain(option.help), mark);
    }
  }
  for (const OptionCard& argument : tool.arguments)
    out += fmt::format(" \\\n      '{}:{}:_files'", argument.many ? "*" : "", plain(argument.names[0]));
  return out;
}

}  // namespace

std::string zshOfRun(const std::vector<ToolCard>& verbs) {
  std::string names, cases;
  for (const ToolCard& verb : verbs) {
    std::string name = verb.name.substr(verb.name.find(' ') + 1);
    names += fmt::format("    '{}:{}'\n", name, plain(verb.summary));
    cases += fmt::format("    {}) _arguments -S{} ;;\n", name, specs(verb, "tg-run"));
  }
  return fmt::format(R"zsh(#compdef tg-run
# zsh completion of tg-run. Written by gen-cli from the tool's options.

{3}_tg_run() {{
  local -a verbs
  verbs=(
{0}  )
  if ((CURRENT == 2)); then
    if [[ $PREFIX == -* ]]; then
      _arguments '--help[print the verbs]' '--version[print the version]'
    else
      _describe -t verbs verb verbs
      _files
    fi
    return
  fi
  local verb=$words[2]
  if [[ -n ${{verbs[(r)$verb:*]}} ]]; then
    shift words
    ((CURRENT--))
  else
    verb={1}
  fi
  case $verb in
{2}  esac
}}

_tg_run "$@"
)zsh",
                     names, verbs.front().name.substr(verbs.front().name.find(' ') + 1), cases,
                     functions(verbs.front(), "tg-run"));
}

std::string zshOf(const ToolCard& tool) {
  return fmt::format("#compdef {0}\n# zsh completion of {0}. Written by gen-cli from the tool's options.\n\n"
                     "{1}_arguments -S{2}\n",
                     tool.name, functions(tool, tool.name), specs(tool, tool.name));
}

}  // namespace tg
