// SPDX-License-Identifier: Apache-2.0
#include "tools/driver/cli.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "ir/text.h"
#include "tools/driver/listings.h"

namespace tg {

std::string notTrueOrFalse(const std::string& value) {
  return value == "true" || value == "false" ? "" : value + " is neither true nor false";
}

namespace {

constexpr const char* kPassGroup = "Passes, run in the order given";
std::string partsGroup(const PassInfo& alias) { return fmt::format("Passes that --{} runs", alias.name); }

/// Normalises a flag, such as `--mlir_print-IR=x` to `--print-IR=x`: underscores become dashes, and MLIR's spellings
/// are aliases.
std::string normalFlag(const std::string& arg) {
  if (arg.size() < 3 || arg.compare(0, 2, "--") != 0) return arg;
  size_t equals = arg.find('=');
  std::string name = arg.substr(2, equals == std::string::npos ? equals : equals - 2);
  std::ranges::replace(name, '_', '-');
  if (name.compare(0, 5, "mlir-") == 0) name.erase(0, 5);
  if (name == "print-debuginfo") name = "print-loc";
  if (name == "pass-pipeline-crash-reproducer" || name == "generate-reproducer") name = "crash-reproducer";
  return "--" + name + (equals == std::string::npos ? "" : arg.substr(equals));
}

/// Defines the options of one tool and parses one command line.
class CommandLine {
 public:
  explicit CommandLine(const PassInfo* only) : only_(only), app_(about(only), only ? only->tool : "tg-opt") {
    command_.tool = app_.get_name();
    if (only_)
      addOptionsOf(*only_);
    else
      addPasses();
    addInput();
    addLooking();
    if (!only_) addOwnPasses();
    app_.get_formatter()->column_width(36);
  }
  ParsedCommand parse(int argc, char** argv);
  const CLI::App& app() const { return app_; }

 private:
  static std::string about(const PassInfo* only) {
    if (only) return fmt::format("{} ({} to {})", only->summary, name(only->from), name(only->to));
    return "Runs passes over a module: text in, text out.";
  }
  void addInput();
  void addPasses();
  void addOwnPasses();
  void addPassFlag(const PassInfo& pass, const std::string& group);
  void addOptionsOf(const PassInfo& pass);
  void addLooking();
  void text(const std::string& flag, const char* value, std::string& into, const std::string& help) {
    app_.add_option(flag, into, help)->option_text(value)->group("Output and checks");
  }
  void toggle(const std::string& flag, bool& into, const std::string& help) {
    app_.add_flag(flag, into, help)->group("Output and checks")->check(notTrueOrFalse);
  }
  void keepEmptyValues(std::vector<std::string>& args) const;
  Result<void> collectPasses();
  Result<void> checkNames();
  std::string screenOfHelp() const;
  bool answered() const;
  std::string seeHelp() const { return fmt::format("; see {} --help", command_.tool); }

  const PassInfo* only_;
  CLI::App app_;
  Command command_;
  std::string pipelineText_, helpPass_, verifyEach_;
  std::string taken_;  // a flag whose name a registered pass has, too
  bool listPasses_ = false, listOps_ = false, version_ = false;
  std::map<const CLI::Option*, const PassInfo*> passFlags_;
  std::map<const CLI::Option*, const OptionInfo*> optionFlags_;
  std::vector<std::string> inputs_, plugins_;
};

void CommandLine::addInput() {
  app_.set_help_flag("-h,--help", "print this help")->group("Output and checks");
  app_.add_option("FILE", inputs_, "the module; - or nothing is standard input")
      ->option_text(" ")
      ->expected(0, -1);
  text("-o,--output", "FILE", command_.output,
       "file to write, completely or not at all (default: standard output)");
}

void CommandLine::addPassFlag(const PassInfo& pass, const std::string& group) {
  CLI::Option* flag = app_.add_flag("--" + pass.name, pass.summary)->group(group);
  flag->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  passFlags_[flag] = &pass;
}

/// Adds a flag for each registered pass, after all other flags: one of these may have its name.
void CommandLine::addOwnPasses() {
  for (const PassInfo& pass : passes()) {
    if (pass.shipped) continue;
    const std::string flag = "--" + pass.name;
    if (app_.get_option_no_throw(flag))
      taken_ = flag;
    else
      addPassFlag(pass, kPassGroup);
  }
}

void CommandLine::addPasses() {
  const PassInfo* alias = nullptr;  // the last alias so far; its passes follow it
  for (const PassInfo& pass : passes()) {
    if (!pass.shipped) continue;
    if (!pass.parts.empty()) alias = &pass;
    addPassFlag(pass, alias && contains(alias->parts, &pass) ? partsGroup(*alias) : kPassGroup);
  }
  auto add = [&](const std::string& flag, const char* value, std::string& into, const std::string& help) {
    app_.add_option(flag, into, help)->option_text(value)->group("Pipelines");
  };
  add("--pass-pipeline", "PASSES", pipelineText_,
      "the passes as text: 'append-grad,append-adam{lr=1e-3},fuse'");
  add("--help-pass", "PASS", helpPass_, "print the options of a pass");
  add("--target", "TARGET", command_.target,
      "for fuse and set-target: a shipped target, a JSON file, or auto");
  app_.add_option("--load-pass-plugin", plugins_, "a shared object with more passes; may be repeated")
      ->option_text("FILE")
      ->allow_extra_args(false)
      ->group("Pipelines");
  app_.add_flag("--list-passes", listPasses_, "print all passes")->group("Pipelines");
  app_.add_flag("--list-ops", listOps_, "print all ops and how each is differentiated")->group("Pipelines");
}

void CommandLine::addOptionsOf(const PassInfo& pass) {
  std::string group = fmt::format("Options of {}", pass.name);
  for (const OptionInfo& info : pass.options) {
    // Must be const: CLI11 stores the option's value in any other string.
    const std::string help = fmt::format("{} (default: {})", info.help, info.fallback);
    std::string flag = "--" + info.name;
    bool alone = info.type == "bool" || !info.bare.empty();
    CLI::Option* option =
        alone ? app_.add_flag(flag, help) : app_.add_option(flag)->description(help)->option_text(info.type);
    option->group(group)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    optionFlags_[option] = &info;
  }
}

void CommandLine::addLooking() {
  if (!app_.get_option_no_throw("--emit")) {
    std::string forms = "text";
    for (const Emitter& emitter : emitters()) forms += " | " + emitter.name;
    text("--emit", "FORM", command_.emit, forms + ": what to write");
  }
  toggle("--split-input-file", command_.split, "treat sections between '// -----' as files of their own");
  toggle("--verify-diagnostics", command_.verifyDiagnostics, "check against // expected-error@below {{...}}");
  toggle("--verify-roundtrip", command_.verifyRoundtrip, "check that printing and parsing is the identity");
  text("--verify-each", "WHAT", verifyEach_,
       "after each pass, off: check nothing; on (the default): verify the module; roundtrip: also print and "
       "parse it");
  if (!only_)
    toggle("--exec-each", command_.execEach,
           "after each pass, run every function on random inputs and compare the results");
  toggle("--print-loc", command_.printLoc, "print the location of every op");
  toggle("--print-ir-before-all", command_.printBeforeAll, "print the module before each pass");
  toggle("--print-ir-after-all", command_.printAfterAll, "print the module after each pass");
  auto names = [&](const std::string& flag, std::vector<std::string>& into, const std::string& help) {
    app_.add_option(flag, into, help)
        ->option_text("PASS,...")
        ->allow_extra_args(false)
        ->delimiter(',')
        ->group("Output and checks");
  };
  names("--print-ir-before", command_.printBefore, "print the module before these passes");
  names("--print-ir-after", command_.printAfter, "print the module after these passes");
  text("--print-ir-tree-dir", "DIR", command_.treeDir,
       "write the module after each pass to DIR/NN_pass.tgir");
  toggle("--dump-pass-pipeline", command_.dumpPipeline, "print the pipeline with every option");
  toggle("--timing", command_.timing, "print how long each pass took");
  text("--crash-reproducer", "FILE", command_.reproducer,
       "file for the module on which a pass fails (none: do not write it)");
  app_.add_flag("--version", version_, "print the version")->group("Output and checks");
}

// For `--flag=`, CLI11 would take the next argument as the value, so the empty value becomes a separate argument.
void CommandLine::keepEmptyValues(std::vector<std::string>& args) const {
  for (size_t i = 0; i < args.size() && args[i] != "--"; ++i) {
    if (args[i].compare(0, 2, "--") != 0 || args[i].back() != '=') continue;
    std::string name = args[i].substr(0, args[i].size() - 1);
    const CLI::Option* option = app_.get_option_no_throw(name);
    if (!option) continue;
    args[i] = name;
    if (option->get_expected_max() > 0) args.insert(args.begin() + i + 1, "");
  }
}

// The passes given as flags become steps in the order of the command line. A pass tool has a single step.
Result<void> CommandLine::collectPasses() {
  if (only_) {
    AttrList options;
    for (const OptionInfo& info : only_->options)
      for (auto [flag, owner] : optionFlags_) {
        if (owner != &info || flag->count() == 0) continue;
        // CLI11 stores the text "true" for a flag without a value.
        const std::string& given = flag->results().back();
        bool alone = !info.bare.empty() && given == "true";
        TG_TRY(Attr value, parsePassOption(*only_, info, alone ? info.bare : given));
        options.push_back({info.name, std::move(value)});
      }
    command_.pipeline.add(*only_, std::move(options));
    return {};
  }
  std::map<const CLI::Option*, size_t> seen;
  for (const CLI::Option* flag : app_.parse_order()) {
    auto pass = passFlags_.find(flag);
    if (pass == passFlags_.end()) continue;
    std::string value = flag->results()[seen[flag]++];
    // CLI11 stores the text "true" for a flag without a value.
    TG_TRY(AttrList options, parsePassOptions(*pass->second, value == "true" ? "" : value));
    command_.pipeline.add(*pass->second, std::move(options));
  }
  if (pipelineText_.empty()) return {};
  if (!command_.pipeline.steps().empty())
    return fail("give the passes by flags or by --pass-pipeline, not both");
  TG_TRY(command_.pipeline, PassManager::parse(pipelineText_));
  return {};
}

Result<void> CommandLine::checkNames() {
  if (inputs_.size() > 1)
    return fail("one input file, not {}: '{}' and '{}'", inputs_.size(), inputs_[0], inputs_[1]);
  if (!inputs_.empty()) command_.input = inputs_[0];
  for (auto* names : {&command_.printBefore, &command_.printAfter})
    for (std::string& name : *names) {
      const PassInfo* pass = findPass(name);
      if (!pass) return fail("no pass is named '{}'; see tg-opt --list-passes", name);
      name = pass->name;
    }
  if (const std::string& each = verifyEach_; !each.empty()) {
    const std::optional<VerifyEach> known = each == "off"         ? std::optional(VerifyEach::off)
                                            : each == "on"        ? std::optional(VerifyEach::on)
                                            : each == "roundtrip" ? std::optional(VerifyEach::roundtrip)
                                                                  : std::nullopt;
    if (!known) return fail("--verify-each is off, on or roundtrip, not '{}'", each);
    if (command_.execEach && known == VerifyEach::off)
      return fail("--exec-each runs what is verified: not with --verify-each=off");
    command_.pipeline.verifyEach(*known);
  }
  // `spirv-emit{emit=glsl}` names an emitter: the pass stops at kernels, and the emitter then writes them.
  if (!command_.pipeline.steps().empty()) {
    PipelineStep& last = command_.pipeline.steps().back();
    const Attr* given = find(last.options, "emit");
    for (const Emitter& emitter : emitters())
      if (given && given->text == emitter.name) {
        command_.emit = emitter.name;
        set(last.options, "emit", Attr::string("kernel"));
        break;
      }
  }
  std::string forms = "text";
  for (const Emitter& emitter : emitters()) {
    if (command_.emit == emitter.name) return {};
    forms += ", " + emitter.name;
  }
  if (command_.emit == "text") return {};
  return fail("{} cannot write '{}'; it can write: {}", command_.tool, command_.emit, forms);
}

ParsedCommand CommandLine::parse(int argc, char** argv) {
  auto wrong = [&](std::string_view why) {
    fmt::print(stderr, "{}: error: {}\n", command_.tool, why);
    return ParsedCommand{exitUsage, {}};
  };
  if (!taken_.empty())
    return wrong(taken_ + " is a flag already: the pass that is registered by this name needs another one");
  std::vector<std::string> args;
  bool flags = true;
  for (int i = 1; i < argc; ++i) {
    flags = flags && std::string_view(argv[i]) != "--";
    args.push_back(flags ? normalFlag(argv[i]) : argv[i]);
  }
  if (auto unknown = unknownFlag(app_, args)) return wrong(*unknown + seeHelp());
  keepEmptyValues(args);
  args = withoutShortEquals(std::move(args));
  try {
    std::ranges::reverse(args);  // CLI11 reads a vector from its end
    app_.parse(std::move(args));
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", screenOfHelp());
    return {exitOk, {}};
  } catch (const CLI::ParseError& error) {
    return wrong(whyWrong(app_, error) + seeHelp());
  }
  if (!helpPass_.empty()) {
    const PassInfo* pass = findPass(helpPass_);
    if (!pass) return wrong(fmt::format("no pass is named '{}'; see --list-passes", helpPass_));
    fmt::print("{}", passHelp(*pass));
    return {exitOk, {}};
  }
  if (answered()) return {exitOk, {}};
  if (auto collected = collectPasses(); !collected) {
    const Error& error = collected.error();
    bool located = placeOf(error.diagnostics().front().loc) != nullptr;
    if (!located) return wrong(error.message());
    fmt::print(stderr, "{}", error.str());
    return {exitUsage, {}};
  }
  if (auto checked = checkNames(); !checked) return wrong(checked.error().message());
  return {std::nullopt, std::move(command_)};
}

/// The help on one screen: of the passes that an alias runs, only the names.
std::string CommandLine::screenOfHelp() const {
  constexpr size_t kWidth = 118;
  std::string text = helpOf(app_);
  for (const PassInfo& alias : passes()) {
    const std::string group = partsGroup(alias);
    const size_t at = text.find(group + ":\n");
    if (at == std::string::npos) continue;
    std::string names = group + ", described by --list-passes:\n", line;
    for (const CLI::Option* option : app_.get_options()) {
      if (option->get_group() != group) continue;
      const std::string name = option->get_name();
      if (line.size() + 1 + name.size() > kWidth) names += std::exchange(line, "") + "\n";
      line += (line.empty() ? "  " : " ") + name;
    }
    text.replace(at, text.find("\n\n", at) - at, names + line);
  }
  return text;
}

bool CommandLine::answered() const {
  if (listPasses_) fmt::print("{}", passList());
  if (listOps_) fmt::print("{}", opList());
  if (version_) fmt::print("{}", versionText());
  return listPasses_ || listOps_ || version_;
}

}  // namespace

PrintOptions Command::printOptions() const { return {.locations = printLoc}; }

std::shared_ptr<const CLI::App> describedCommand(const PassInfo* only) {
  auto line = std::make_shared<CommandLine>(only);
  return {line, &line->app()};
}

std::string helpOf(const CLI::App& app) {
  std::string text = app.help();
  for (size_t at = text.find("\n\n\n"); at != std::string::npos; at = text.find("\n\n\n", at))
    text.erase(at, 1);
  return text;
}

std::vector<std::string> withoutShortEquals(std::vector<std::string> args) {
  for (std::string& arg : args) {
    if (arg == "--") break;
    if (arg.size() > 3 && arg[0] == '-' && std::isalpha(static_cast<unsigned char>(arg[1])) && arg[2] == '=')
      arg.erase(2, 1);
  }
  return args;
}

std::optional<std::string> unknownFlag(const CLI::App& app, const std::vector<std::string>& args) {
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) known.push_back(name);
  for (const std::string& arg : args) {
    if (arg == "--") return {};
    if (arg.size() < 3 || !arg.starts_with("--")) continue;
    std::string name = arg.substr(2, arg.find('=') - 2);
    if (contains(known, name)) continue;
    std::string near = nearestName(name, known);
    return fmt::format("unknown flag --{}{}", name, near.empty() ? "" : "; did you mean --" + near + "?");
  }
  return {};
}

std::string whyWrong(const CLI::App& app, const CLI::ParseError& error) {
  const std::string why = error.what();
  constexpr std::string_view kUnread = "Could not convert: ";  // such as --steps = abc
  if (!why.starts_with(kUnread)) return why;
  const size_t equals = why.find(" = ");
  const std::string flag = why.substr(kUnread.size(), equals - kUnread.size());
  const CLI::Option* option = app.get_option_no_throw(flag);
  return fmt::format("{}={} {}", flag, why.substr(equals + 3),
                     option && option->get_items_expected_max() == 0
                         ? "is neither true nor false"
                         : "cannot be read as a number of its kind");
}

ParsedCommand parseCommand(int argc, char** argv, const PassInfo* only) {
  std::vector<std::string> args(argv + 1, argv + argc);
  std::ranges::transform(args, args.begin(), normalFlag);
  // Load plug-ins first, because their passes are flags.
  if (auto loaded = only ? Result<void>() : loadPassPlugins(args); !loaded) {
    fmt::print(stderr, "tg-opt: {}", loaded.error().str());
    return {exitUsage, {}};
  }
  return CommandLine(only).parse(argc, argv);
}

}  // namespace tg
