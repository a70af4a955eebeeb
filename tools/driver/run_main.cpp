// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <system_error>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "ir/file_io.h"
#include "ir/text.h"
#include "passes/pass.h"
#include "tools/driver/driver.h"
#include "tools/driver/exec_each.h"
#include "tools/driver/listings.h"
#include "tools/driver/run.h"
#include "tools/driver/run_setup.h"
#include "tools/driver/streams.h"
#include "tools/main.h"

namespace tg {

#define TG_VERB(name, maker, summary) std::unique_ptr<Verb> maker();
#include "tools/driver/verbs.def"

namespace {

constexpr VerbInfo kVerbs[] = {
#define TG_VERB(name, maker, summary) {name, summary, maker},
#include "tools/driver/verbs.def"
};

std::string usage() {
  std::string text =
      "Runs a module of any stage: one of an earlier stage is finished for the device at hand.\n"
      "Usage: tg-run [VERB] FILE [OPTIONS], or tg-run help [VERB]\n\nVerbs:\n";
  for (const VerbInfo& verb : kVerbs) text += fmt::format("  {:<16}{}\n", verb.name, verb.summary);
  return text + "\ntg-run VERB --help prints a verb's options.\n";
}

/// Sets `tool` to the name with which error messages begin.
int runVerb(const VerbInfo& info, const Arguments& args, std::string& tool) {
  OpenVerb open = openVerb(info);
  tool = open.app->get_name();
  const auto run = [&]() -> Result<int> {
    TG_TRY(const std::optional<int> exit, parseVerb(*open.app, args));
    if (exit) return *exit;
    return open.verb->run(*open.app, args);
  };
  const Result<int> code = run();
  return code ? *code : report(*open.app, code.error());
}

/// Runs the verb that the first word names, or else the first verb of verbs.def with all words.
int dispatch(Arguments args, std::string& tool) {
  if (!args.empty() && args[0] == "help") {
    args.erase(args.begin());
    if (!args.empty()) args = {args[0], "--help"};
  }
  if (args.empty() || args[0] == "--help" || args[0] == "-h") return fmt::print("{}", usage()), 0;
  if (!args.empty() && args[0] == "--version") return fmt::print("{}", versionText()), 0;
  std::vector<std::string> names;
  for (const VerbInfo& verb : kVerbs) {
    if (!args.empty() && args[0] == verb.name) return runVerb(verb, {args.begin() + 1, args.end()}, tool);
    names.emplace_back(verb.name);
  }
  // A first word that is neither a file nor a flag is most likely a misspelled verb.
  if (args.size() > 1 && !args[0].starts_with('-') && args[0].find_first_of("./") == std::string::npos &&
      !isThere(args[0])) {
    std::string near = nearestName(args[0], names);
    fmt::print(stderr, "tg-run: error: no verb '{}'; {}\n", args[0],
               near.empty() ? "tg-run --help lists them" : fmt::format("did you mean {}?", near));
    return 2;
  }
  return runVerb(kVerbs[0], args, tool);
}

}  // namespace

std::span<const VerbInfo> verbs() { return kVerbs; }

OpenVerb openVerb(const VerbInfo& info) {
  OpenVerb open{std::make_unique<CLI::App>("", fmt::format("tg-run {}", info.name)), info.make()};
  open.app->get_formatter()->column_width(34);
  open.app->set_help_flag("-h,--help", "print this help");
  open.verb->describe(*open.app);
  // An option takes the one argument behind it, so that FILE may follow those that may be repeated.
  for (CLI::Option* option :
       open.app->get_options([](const CLI::Option* each) { return !each->get_positional(); }))
    option->allow_extra_args(false);
  return open;
}

int tgOptMain(int argc, char** argv) { return optMain(argc, argv, {deviceTarget, execEach}); }

int tgRunMain(int argc, char** argv) {
  std::string tool = "tg-run";
  return runTool(tool, [&] { return dispatch(Arguments(argv + 1, argv + argc), tool); });
}

}  // namespace tg
