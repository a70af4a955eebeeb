// SPDX-License-Identifier: Apache-2.0
// Bash completion. Each tool has two functions that list its flags and values, and one, the same for all tools, that
// offers them. It needs only bash itself.
#include <algorithm>

#include <fmt/format.h>

#include "ir/text.h"
#include "tools/manual/manual.h"

namespace tg {

namespace {

/// A name such as `tg-spirv-emit` as part of a function's name.
std::string idOf(std::string text) {
  std::ranges::replace(text, '-', '_');
  return text;
}

// NAME is replaced by the tool's name. The functions _NAME_flags VERB and _NAME_values VERB FLAG print lines; a line
// @files, @folders, @spec or @list stands for paths, for paths after a mark, or for words separated by commas.
constexpr std::string_view kComplete = R"bash(
_NAME_complete() {
  local whole=${COMP_WORDS[COMP_CWORD]} at=$COMP_CWORD verb='' verbs flag='' value part lines line list=''
  local -a words=() found=()
  COMPREPLY=()
  # Bash ends words at these marks too; here a flag and its value are one.
  while ((at > 1)) && [[ ${COMP_WORDS[at]} == [=:@] || ${COMP_WORDS[at - 1]} == [=:@] ]]; do
    at=$((at - 1))
    whole=${COMP_WORDS[at]}$whole
  done
  verbs=$(_NAME_verbs)
  if [[ -n $verbs ]]; then
    if ((at > 1)) && [[ " ${verbs//$'\n'/ } " == *" ${COMP_WORDS[1]} "* ]]; then
      verb=${COMP_WORDS[1]}
    elif ((at == 1)); then
      mapfile -t words <<<"$verbs"
    else
      verb=${verbs%%$'\n'*}
    fi
  fi
  value=$whole
  if [[ $whole == --*=* ]]; then
    flag=${whole%%=*}
    value=${whole#*=}
    lines=$(_NAME_values "$verb" "$flag")
    flag+='='
  elif [[ $whole == -* ]]; then
    mapfile -t words < <(_NAME_flags "$verb")
    ((at > 1)) || [[ -z $verbs ]] || words=(--help --version)
    lines=''
  else
    lines=@files
    # `-o` and its like take the next word; so do long flags whose value must follow.
    if ((at > 1)) && [[ ${COMP_WORDS[at - 1]} == -* ]]; then
      part=$(_NAME_values "$verb" "${COMP_WORDS[at - 1]}")
      [[ -z $part || $part == *@bare* ]] || lines=$part words=()
    fi
  fi
  part=''
  while IFS= read -r line; do
    case $line in
      '' | @bare | @any) ;;
      @list) list=1 ;;
      @files | @folders | @spec) ;;
      *) words+=("$line") ;;
    esac
  done <<<"$lines"
  if [[ -n $list && $value == *,* ]]; then part=${value%"${value##*,}"}; fi
  # Between braces there are options, not passes.
  if [[ -n $list && ${value##*\}} == *"{"* ]]; then words=(); fi
  mapfile -t found < <(compgen -W "${words[*]}" -- "${value#"$part"}")
  for line in "${found[@]}"; do COMPREPLY+=("$flag$part$line"); done
  part=''
  if [[ $lines == *@spec* ]]; then
    if [[ $value == *[@:]* ]]; then
      part=${value%"${value##*[@:]}"}
      lines=@files
    else
      lines=''
    fi
  fi
  case $lines in
    *@files*) mapfile -t found < <(compgen -f -- "${value#"$part"}") ;;
    *@folders*) mapfile -t found < <(compgen -d -- "${value#"$part"}") ;;
    *) found=() ;;
  esac
  if ((${#found[@]} > 0)); then
    compopt -o filenames 2>/dev/null
    for line in "${found[@]}"; do COMPREPLY+=("$flag$part$line"); done
  fi
  # Readline replaces only what follows the last mark.
  part=${whole%"${COMP_WORDS[COMP_CWORD]#[=:@]}"}
  for at in "${!COMPREPLY[@]}"; do COMPREPLY[at]=${COMPREPLY[at]#"$part"}; done
  [[ ${#COMPREPLY[@]} -eq 0 || ${COMPREPLY[0]} != *[=:] ]] || compopt -o nospace 2>/dev/null
  return 0
}
complete -F _NAME_complete TOOL
)bash";

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

/// A command that prints these lines with `printf '%s
/// '`.
std::string printed(const std::vector<std::string>& lines) {
  std::string out = "printf '%s\\n'";
  for (const std::string& line : lines) out += fmt::format(" '{}'", line);
  return out;
}

std::vector<std::string> valueLines(const OptionCard& option) {
  std::vector<std::string> out = offeredWords(option);
  if (option.words == Words::files || option.words == Words::targets) out.emplace_back("@files");
  if (option.words == Words::folders) out.emplace_back("@folders");
  if (option.words == Words::spec) out.emplace_back("@spec");
  if (option.words == Words::passes || option.words == Words::options) out.emplace_back("@list");
  if (option.bare) out.emplace_back("@bare");
  if (out.empty()) out.emplace_back("@any");
  return out;
}

std::string flagCase(const ToolCard& tool, const std::string& verb) {
  std::vector<std::string> flags;
  for (const OptionCard& option : tool.options)
    for (const std::string& name : option.names) {
      bool equals = !option.value.empty() && !option.bare && name.starts_with("--");
      flags.push_back(equals ? name + "=" : name);
    }
  return fmt::format("    '{}') {} ;;\n", verb, printed(flags));
}

std::string valueCases(const ToolCard& tool, const std::string& verb) {
  std::string out;
  for (const OptionCard& option : tool.options) {
    if (option.value.empty()) continue;
    const std::string names = listText(
        option.names, [&](const std::string& name) { return fmt::format("'{} {}'", verb, name); }, " | ");
    out += fmt::format("    {}) {} ;;\n", names, printed(valueLines(option)));
  }
  return out;
}

std::string script(const std::string& tool, const std::string& verbs, const std::string& flags,
                   const std::string& values) {
  std::string id = idOf(tool);
  std::string out =
      fmt::format("# bash completion of {0}. Written by gen-cli from the tool's options.\n\n"
                  "_{1}_verbs() {{\n  {2}\n}}\n\n_{1}_flags() {{\n  case $1 in\n{3}  esac\n}}\n\n"
                  "_{1}_values() {{\n  case \"$1 $2\" in\n{4}  esac\n}}\n",
                  tool, id, verbs, flags, values);
  return out + replaced(replaced(std::string(kComplete), "NAME", id), "TOOL", tool);
}

}  // namespace

std::string bashOfRun(const std::vector<ToolCard>& verbs) {
  std::vector<std::string> names;
  std::string flags, values;
  for (const ToolCard& verb : verbs) {
    const std::string& name = names.emplace_back(verb.name.substr(verb.name.find(' ') + 1));
    flags += flagCase(verb, name);
    values += valueCases(verb, name);
  }
  return script("tg-run", printed(names), flags, values);
}

std::string bashOf(const ToolCard& tool) {
  return script(tool.name, "true", flagCase(tool, ""), valueCases(tool, ""));
}

}  // namespace tg
