// SPDX-License-Identifier: Apache-2.0
#include "tools/driver/instruments.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <string>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "ir/file_io.h"
#include "tools/driver/io.h"

namespace tg {

void addPrinting(PassManager& pipeline, const Command& command) {
  auto printer = [options = command.printOptions()](const char* when, bool all,
                                                    std::vector<std::string> names) {
    return [=](const PipelineStep& step, const Module& module) {
      // The passes of an alias are printed only if they are named.
      if ((!all || step.of) && !contains(names, step.pass->name)) return;
      fmt::print(stderr, "// -----// IR Dump {} {} //----- //\n{}\n", when, step.pass->name,
                 print(module, options));
    };
  };
  Instrumentation hooks;
  if (command.printBeforeAll || !command.printBefore.empty())
    hooks.before = [show = printer("Before", command.printBeforeAll, command.printBefore)](
                       const PipelineStep& step, int, const Module& module) { show(step, module); };
  if (command.printAfterAll || !command.printAfter.empty())
    hooks.after = [show = printer("After", command.printAfterAll, command.printAfter)](
                      const PipelineStep& step, int, const Module& module, double) { show(step, module); };
  if (hooks.before || hooks.after) pipeline.instrument(std::move(hooks));
}

/// The file of a pass (numbered from 1), or of the input.
static std::string treeFile(const std::filesystem::path& folder, size_t number, std::string_view name) {
  return folder / fmt::format("{:02}_{}.tgir", number, name);
}

std::vector<std::string> treeFiles(const Command& command) {
  std::vector<std::string> files;
  const std::vector<PipelineStep>& steps = command.pipeline.steps();
  if (command.treeDir.empty() || steps.empty()) return files;
  auto add = [&](const std::filesystem::path& folder) {
    files.push_back(treeFile(folder, 0, "input"));
    for (size_t i = 0; i < steps.size(); ++i) files.push_back(treeFile(folder, i + 1, steps[i].pass->name));
  };
  if (!command.split) add(command.treeDir);
  std::error_code error;
  if (command.split)
    for (const auto& entry : std::filesystem::directory_iterator(command.treeDir, error))
      if (entry.path().filename().native().starts_with("section_")) add(entry.path());
  return files;
}

Result<void> addTree(PassManager& pipeline, const Command& command, int section,
                     std::optional<Error>& failed) {
  if (command.treeDir.empty()) return {};
  std::filesystem::path folder = command.treeDir;
  if (section > 0) folder /= fmt::format("section_{}", section);
  TG_CHECK(makeFolder(folder));
  auto write = [folder, options = command.printOptions(), &failed](int number, const std::string& name,
                                                                   const Module& module) {
    if (failed) return;
    if (auto written =
            writeOutput(treeFile(folder, static_cast<size_t>(number), name), print(module, options));
        !written)
      failed = written.takeError();
  };
  Instrumentation hooks;
  hooks.before = [write](const PipelineStep& step, int index, const Module& module) {
    if (index == 0 && !step.of) write(0, "input", module);
  };
  hooks.after = [write](const PipelineStep& step, int index, const Module& module, double) {
    if (!step.of) write(index + 1, step.pass->name, module);
  };
  pipeline.instrument(std::move(hooks));
  return {};
}

void Timing::watch(PassManager& pipeline) {
  Instrumentation hooks;
  hooks.after = [this](const PipelineStep& step, int, const Module&, double milliseconds) {
    if (step.of)
      parts_.emplace_back(step.pass->name, milliseconds);
    else
      add(step.pass->name, milliseconds);
  };
  pipeline.instrument(std::move(hooks));
}

std::string Timing::table() const {
  double total = 0;
  for (const Row& row : rows_) total += row.milliseconds;
  std::string out = "  time ms   share  step\n";
  auto line = [&](const std::string& name, double milliseconds) {
    out += fmt::format("{:9.3f}  {:5.1f}%  {}\n", milliseconds, total > 0 ? 100 * milliseconds / total : 0,
                       name);
  };
  for (const Row& row : rows_) {
    line(row.name, row.milliseconds);
    for (const auto& [name, milliseconds] : row.parts) line("  " + name, milliseconds);
  }
  return out + fmt::format("{:9.3f}  100.0%  total\n", total);
}

namespace {

constexpr std::array kSignals = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};

struct Saved {
  std::string path, text, message;
  std::array<struct sigaction, kSignals.size()> before{};
  std::array<char, 65536> stack{};  // the handler of a stack overflow needs a stack of its own
};
Saved* saved = nullptr;

void onCrash(int signal) {
  for (size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &saved->before[i], nullptr);
  if (!saved->text.empty()) {
    int file = ::open(saved->path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (file >= 0) {
      (void)writeAll(file, saved->text);
      ::close(file);
      (void)writeAll(2, saved->message);
    }
  }
  ::raise(signal);
}

}  // namespace

CrashGuard::CrashGuard(std::string path) {
  if (path.empty()) return;
  saved = new Saved;
  saved->path = std::move(path);
  stack_t stack{};
  stack.ss_sp = saved->stack.data();
  stack.ss_size = saved->stack.size();
  ::sigaltstack(&stack, nullptr);
  struct sigaction action {};
  action.sa_handler = onCrash;
  action.sa_flags = SA_ONSTACK;
  for (size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &action, &saved->before[i]);
}

CrashGuard::~CrashGuard() {
  if (!saved) return;
  for (size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &saved->before[i], nullptr);
  stack_t none{};
  none.ss_flags = SS_DISABLE;
  ::sigaltstack(&none, nullptr);
  delete saved;
  saved = nullptr;
}

void CrashGuard::watch(PassManager& pipeline) {
  if (!saved) return;
  Instrumentation hooks;
  hooks.before = [steps = pipeline.steps()](const PipelineStep& step, int index, const Module& module) {
    saved->message = fmt::format("error: pass {} crashed: {}\nnote: the module before the pass is in {}\n",
                                 step.pass->name, step.pass->fault(), saved->path);
    if (step.of) return;  // a reproducer of an alias starts with the whole alias
    PassManager rest;
    for (size_t i = index; i < steps.size(); ++i) rest.add(*steps[i].pass, steps[i].options);
    saved->text = reproducerText(rest.str(), print(module));
  };
  hooks.after = [](const PipelineStep& step, int, const Module&, double) {
    if (!step.of) saved->text.clear();
  };
  pipeline.instrument(std::move(hooks));
}

}  // namespace tg
