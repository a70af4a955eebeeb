// SPDX-License-Identifier: Apache-2.0
// One invocation of tg-opt or a pass tool: read the input, split it, run the pipeline on each section, compare or
// print.
#include <cstdio>

#include <fmt/format.h>

#include "ir/parser.h"
#include "ir/stopwatch.h"
#include "ir/text.h"
#include "tools/driver/cli.h"
#include "tools/driver/expected.h"
#include "tools/driver/instruments.h"
#include "tools/driver/io.h"
#include "tools/driver/streams.h"

namespace tg {

namespace {

// Print at most this many errors: in a garbled file only the first ones are useful.
constexpr size_t kMostErrors = 20;
constexpr std::string_view kSplitMark = "// -----";

/// Prints an error. It begins with its place, or with the tool's name if it has none.
void show(const std::string& tool, const Error& error) {
  size_t count = 0;
  for (const Diagnostic& diagnostic : error.diagnostics()) {
    if (++count > kMostErrors) break;
    if (!diagnostic.loc && diagnostic.severity == Severity::error) fmt::print(stderr, "{}: ", tool);
    fmt::print(stderr, "{}", render(diagnostic));
  }
  if (error.diagnostics().size() > kMostErrors)
    fmt::print(stderr, "note: {} more errors are not shown\n", error.diagnostics().size() - kMostErrors);
}

/// Splits a text at its marks. Each section begins with as many newlines as precede it, so that its lines keep their
/// numbers in the file.
std::vector<std::string> sectionsOf(const std::string& text, bool split) {
  if (!split) return {text};
  std::vector<std::string> out(1);
  size_t lines = 0;
  for (size_t begin = 0; begin < text.size(); ++lines) {
    size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = std::string_view(text).substr(begin, end - begin);
    size_t last = line.find_last_not_of(" \t\r");
    if (line.substr(0, last == std::string_view::npos ? 0 : last + 1) == kSplitMark)
      out.emplace_back(lines + 1, '\n');
    else
      out.back().append(line).append("\n");
    begin = end + 1;
  }
  return out;
}

bool isBlank(const std::string& text) { return text.find_first_not_of(" \t\r\n") == std::string::npos; }

/// The file name `tg-crash-<hash of the input>.tgir`; the hash keeps two failures from overwriting each other.
std::string reproducerPath(const Command& command, const std::string& text) {
  if (command.reproducer == "none") return "";
  if (!command.reproducer.empty()) return command.reproducer;
  return fmt::format("tg-crash-{}.tgir", textHash(text));
}

class Invocation {
 public:
  Invocation(Command command, const OptHooks& hooks) : command_(std::move(command)), hooks_(hooks) {}
  Result<int> run();

 private:
  bool runSection(const std::string& text, int section);
  Result<std::string> process(const std::string& text, int section, const DiagnosticHandler& handler);
  Result<void> checkRoundTrip(const Module& module, std::string_view when) const;
  Result<std::string> write(const Module& module) const;

  Command command_;
  const OptHooks& hooks_;
  std::string fileName_, reproducer_, output_;
  Timing timing_;
};

Result<void> Invocation::checkRoundTrip(const Module& module, std::string_view when) const {
  if (!command_.verifyRoundtrip) return {};
  std::string text = print(module);
  auto again = parse(text, fmt::format("<{} printed>", when));
  if (!again) {
    Error error = fail("round trip: the printed {} does not parse", when);
    error.append(again.takeError());
    return error;
  }
  std::string second = print(**again);
  if (second == text) return {};
  size_t at = 0, line = 1;
  for (; at < text.size() && at < second.size() && text[at] == second[at]; ++at) line += text[at] == '\n';
  auto lineAt = [&](const std::string& from) {
    size_t begin = from.rfind('\n', at == 0 ? 0 : at - 1);
    begin = begin == std::string::npos ? 0 : begin + 1;
    return from.substr(begin, from.find('\n', begin) - begin);
  };
  return fail("round trip: the {} changes on line {}, from\n{}\nto\n{}", when, line, lineAt(text),
              lineAt(second));
}

Result<std::string> Invocation::write(const Module& module) const {
  for (const Emitter& emitter : emitters())
    if (emitter.name == command_.emit) return emitter.emit(module);
  return print(module, command_.printOptions());
}

Result<std::string> Invocation::process(const std::string& text, int section,
                                        const DiagnosticHandler& handler) {
  Stopwatch watch;
  TG_TRY(std::unique_ptr<Module> module, parse(text, fileName_));
  timing_.add("parse", watch.milliseconds());
  TG_CHECK(checkRoundTrip(*module, "input"));

  PassManager pipeline = command_.pipeline;
  CrashGuard guard(reproducer_);
  pipeline.onDiagnostic(handler).reproducer(reproducer_);
  if (command_.verifyRoundtrip) pipeline.verifyEach(VerifyEach::roundtrip);
  addPrinting(pipeline, command_);
  std::optional<Error> treeFailed;
  TG_CHECK(addTree(pipeline, command_, section, treeFailed));
  timing_.watch(pipeline);
  guard.watch(pipeline);
  if (command_.execEach) pipeline.instrument(hooks_.execEach());
  TG_CHECK(pipeline.run(module));
  if (treeFailed) return *std::move(treeFailed);
  TG_CHECK(checkRoundTrip(*module, "output"));

  watch = Stopwatch();
  TG_TRY(std::string out, write(*module));
  timing_.add(command_.emit == "text" ? "print" : command_.emit, watch.milliseconds());
  return out;
}

// Returns whether the section behaved as expected: it succeeded, or failed exactly as its comments say.
bool Invocation::runSection(const std::string& text, int section) {
  if (!command_.verifyDiagnostics) {
    auto done = process(text, section,
                        [](const Diagnostic& diagnostic) { fmt::print(stderr, "{}", render(diagnostic)); });
    if (!done)
      show(command_.tool, done.error());
    else
      output_ += *done;
    return static_cast<bool>(done);
  }
  ExpectedDiagnostics expected(text, fileName_);
  auto done = process(text, section, [&](const Diagnostic& diagnostic) { expected.see(diagnostic); });
  if (!done)
    expected.see(done.error());
  else
    output_ += *done;
  std::string mismatches = expected.mismatches();
  fmt::print(stderr, "{}", mismatches);
  return mismatches.empty();
}

/// The exit code; an error if a file cannot be read or written.
Result<int> Invocation::run() {
  TG_TRY(const std::string text, readInput(command_.input));
  fileName_ = command_.input == "-" ? "<stdin>" : command_.input;
  reproducer_ = reproducerPath(command_, text);
  if (command_.dumpPipeline)
    fmt::print(stderr, "Pass Manager with {}:\n{}\n",
               countText(command_.pipeline.steps().size(), "pass", "passes"), command_.pipeline.str(true));
  bool good = true, first = true;
  std::vector<std::string> sections = sectionsOf(text, command_.split);
  for (size_t index = 0; index < sections.size(); ++index) {
    if (command_.split && isBlank(sections[index])) continue;
    size_t before = output_.size();
    good = runSection(sections[index], command_.split ? static_cast<int>(index) + 1 : 0) && good;
    if (output_.size() > before && !first) output_.insert(before, fmt::format("{}\n", kSplitMark));
    first = first && output_.size() == before;
  }
  if (command_.timing) fmt::print(stderr, "{}", timing_.table());
  if (!good) return exitInput;
  TG_CHECK(writeOutput(command_.output, output_));
  return exitOk;
}

/// Checks the outputs before anything runs: each can be written, overwrites no input except the module itself, and
/// replaces only text.
Result<void> checkOutputs(const Command& command) {
  std::vector<std::string> read = {command.target};
  for (const PipelineStep& step : command.pipeline.steps())
    for (const NamedAttr& option : step.options) read.push_back(option.value.text);
  // The folders of the tree are made first, and the output may go there.
  TG_CHECK(command.treeDir.empty() ? mayWrite("--output", command.output)
                                   : mayMakeFolder("--print-ir-tree-dir", command.treeDir));
  TG_CHECK(notOverOther("--output", command.output, beginsText, read));
  read.push_back(command.input);
  std::vector<OutputFile> outputs = {{"--output", command.output}};
  for (const std::string& file : treeFiles(command)) {
    TG_CHECK(notOverOther("--print-ir-tree-dir", file, beginsText, read));
    outputs.push_back({"--print-ir-tree-dir", file});
  }
  if (command.reproducer != "none") {
    TG_CHECK(notOverOther("--crash-reproducer", command.reproducer, beginsText, read));
    outputs.push_back({"--crash-reproducer", command.reproducer});
  }
  return notOneFile(outputs);
}

Result<int> execute(Command command, const OptHooks& hooks) {
  TG_CHECK(withCode(exitUsage, checkOutputs(command)));
  TG_CHECK(resolveTargets(command, hooks));
  if (command.execEach && !hooks.execEach) return usageError("--exec-each: this program has no interpreter");
  return Invocation(std::move(command), hooks).run();
}

int runCommand(const ParsedCommand& parsed, const OptHooks& hooks) {
  if (parsed.exit) return *parsed.exit;
  auto code = execute(parsed.command, hooks);
  if (code) return *code;
  fmt::print(stderr, "{}: {}", parsed.command.tool, code.error().str());
  return code.error().exitCode();
}

}  // namespace

int optMain(int argc, char** argv, const OptHooks& hooks) {
  return runTool("tg-opt", [&] { return runCommand(parseCommand(argc, argv, nullptr), hooks); });
}

int passToolMain(int argc, char** argv, const char* passName) {
  const PassInfo* pass = findPass(passName);
  if (!pass) {
    fmt::print(stderr, "no pass is named '{}'\n", passName);
    return exitUsage;
  }
  return runTool(pass->tool, [&] { return runCommand(parseCommand(argc, argv, pass), {}); });
}

}  // namespace tg
