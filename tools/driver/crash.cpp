// SPDX-License-Identifier: Apache-2.0
// Saves the module on which a pass crashed. The signal handler runs in a broken process, so it only writes bytes that
// were prepared before the pass started.
#include <array>
#include <csignal>
#include <string>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "tools/driver/instruments.h"
#include "tools/driver/io.h"

namespace tg {

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
