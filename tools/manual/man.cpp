// SPDX-License-Identifier: Apache-2.0
// Man pages. They use only the macros of man(7), which groff and mandoc render alike.
#include <algorithm>

#include <fmt/format.h>

#include "ir/text.h"
#include "tools/driver/listings.h"
#include "tools/manual/manual.h"

namespace tg {

namespace {

/// Escapes text for roff, so that nothing in it is a request, an escape or a typographic character.
std::string roff(std::string_view text) {
  std::string out;
  for (char c : text) {
    switch (c) {
    case '\\': out += "\\e"; break;
    case '-': out += "\\-"; break;
    case '\'': out += "\\(aq"; break;
    case '`': out += "\\(ga"; break;
    case '^': out += "\\(ha"; break;
    case '~': out += "\\(ti"; break;
    case '"': out += "\\(dq"; break;
    default: out += c;
    }
  }
  return out.starts_with('.') ? "\\&" + out : out;
}

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

std::string section(std::string_view title) { return fmt::format(".SH {}\n", title); }
std::string bold(std::string_view text) { return fmt::format("\\fB{}\\fR", roff(text)); }
std::string entry(std::string_view term, std::string_view text) {
  return fmt::format(".TP\n{}\n{}\n", term, roff(text));
}
std::string reference(std::string_view page) { return fmt::format("{}(1)", bold(page)); }

/// The head of a page. It has no date, so that equal sources give equal bytes.
std::string head(std::string_view page, std::string_view summary) {
  return fmt::format(
      ".\\\" Written by gen-cli from the tool's options.\n.TH {} 1 \"\" \"tensorgrad {}\" \"tensorgrad\"\n"
      ".SH NAME\n{} \\- {}\n",
      upper(roff(page)), versionNumber(), roff(page), roff(summary));
}

/// An option as a term, such as `\fB--steps\fR=\fIN\fR`.
std::string term(const OptionCard& option) {
  const std::string out = listText(option.names, bold);
  if (!option.names.front().starts_with('-')) return fmt::format("\\fI{}\\fR", roff(option.usage()));
  if (option.value.empty()) return out;
  std::string value = fmt::format("\\fI{}\\fR", roff(option.value));
  if (option.bare) return out + "[=" + value + "]";
  return out + (option.names.back().size() == 2 ? " " : "=") + value;
}

std::string synopsis(const ToolCard& tool) {
  std::string out = section("SYNOPSIS") + bold(tool.name) + " [\\fIOPTION\\fR]...";
  for (const OptionCard& argument : tool.arguments) {
    std::string use = fmt::format("\\fI{}\\fR", roff(argument.usage()));
    out += argument.required ? " " + use : fmt::format(" [{}]", use);
  }
  return out + "\n";
}

std::string optionList(const ToolCard& tool) {
  std::string out;
  if (!tool.arguments.empty()) {
    out += section("ARGUMENTS");
    for (const OptionCard& argument : tool.arguments) out += entry(term(argument), argument.meaning());
  }
  out += section("OPTIONS");
  for (const std::string& group : tool.groups()) {
    if (tool.groups().size() > 1)
      out += fmt::format(".SS {}\n", roff(group == "Options" ? "General" : group));
    for (const OptionCard& option : tool.options)
      if (option.group == group) out += entry(term(option), option.meaning());
  }
  return out;
}

std::string exitStatus(size_t most) {
  std::string out = section("EXIT STATUS");
  for (size_t i = 0; i < std::min(most, exitCodes().size()); ++i)
    out += entry(bold(exitCodes()[i].code), exitCodes()[i].meaning);
  return out;
}

std::string environmentList() {
  std::string out = section("ENVIRONMENT");
  for (const Variable& variable : environment()) out += entry(bold(variable.name), variable.meaning);
  return out;
}

std::string seeAlso(const std::vector<std::string>& pages) {
  std::string out = section("SEE ALSO");
  for (size_t i = 0; i < pages.size(); ++i)
    out += reference(pages[i]) + (i + 1 < pages.size() ? ",\n" : "\n");
  return out;
}

/// The options that `--PASS=` accepts.
std::string passOptions() {
  std::string out =
      section("OPTIONS OF PASSES") +
      roff("Between commas after the pass's flag, as in --append-adam=lr=1e-3,clip-norm=1, or in braces "
           "in --pass-pipeline.") +
      "\n";
  for (const PassInfo& pass : passes()) {
    if (pass.options.empty()) continue;
    out += fmt::format(".SS {}\n", roff(pass.name));
    for (const OptionInfo& option : pass.options) {
      std::string fallback = option.fallback.empty() ? "\"\"" : option.fallback;
      out += entry(fmt::format("{}=\\fI{}\\fR", bold(option.name), roff(option.type)),
                   fmt::format("{} (default: {})", option.help, fallback));
    }
  }
  return out;
}

}  // namespace

std::string manOfRun(const std::vector<ToolCard>& verbs) {
  std::string out = head("tg-run", "train and run tensor programs on Vulkan devices");
  out += section("SYNOPSIS") + bold("tg-run") + " [\\fIVERB\\fR] [\\fIOPTION\\fR]... [\\fIFILE\\fR]\n.br\n" +
         bold("tg-run") + " \\fIVERB\\fR " + bold("--help") + "\n.br\n" + bold("tg-run --version") + "\n";
  out += section("DESCRIPTION") +
         roff("Takes a module of any stage, finishes the pipeline for the device at hand and runs it. Each "
              "verb has "
              "options and a page of its own. Without a verb it is exec.") +
         "\n" + section("VERBS");
  std::vector<std::string> pages{"tg-opt"};
  for (const ToolCard& verb : verbs) {
    out += entry(reference(verb.page), verb.summary);
    pages.push_back(verb.page);
  }
  std::ranges::sort(pages);
  return out + exitStatus(exitCodes().size()) + environmentList() + seeAlso(pages);
}

std::string manOfVerb(const ToolCard& verb) {
  std::string out = head(verb.page, verb.summary) + synopsis(verb);
  out += section("DESCRIPTION") + roff(verb.about) + "\n" + optionList(verb);
  return out + exitStatus(exitCodes().size()) + environmentList() + seeAlso({"tg-opt", "tg-run"});
}

std::string manOfPassTool(const ToolCard& tool) {
  std::string out = head(tool.page, tool.summary) + synopsis(tool);
  out += section("DESCRIPTION") + roff(tool.about) + "\n.PP\n" +
         roff("A module is text: it is read from FILE or standard input and written to standard output or "
              "the file "
              "after -o. All else goes to standard error.") +
         "\n" + optionList(tool);
  std::vector<std::string> pages;
  for (const ToolCard& other : passTools())
    if (other.page != tool.page) pages.push_back(other.page);
  pages.emplace_back("tg-run");
  std::ranges::sort(pages);
  if (tool.page == "tg-opt") out += passOptions();
  return out + exitStatus(3) + seeAlso(pages);
}

}  // namespace tg
