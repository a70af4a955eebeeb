// SPDX-License-Identifier: Apache-2.0
// Runs a pipeline: stage check, verification before and after each pass, hooks, reproducers.
#include <algorithm>

#include <fmt/format.h>

#include "ir/exceptions.h"
#include "ir/file_io.h"
#include "ir/parser.h"
#include "ir/stopwatch.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "passes/pass.h"
#include "passes/pass_options.h"
#include "passes/plugin.h"

namespace tg {

PassManager& PassManager::add(const PassInfo& pass, AttrList options) {
  steps_.push_back({&pass, std::move(options)});
  return *this;
}

PassManager& PassManager::instrument(Instrumentation hooks) {
  hooks_.push_back(std::move(hooks));
  return *this;
}

PassManager& PassManager::onDiagnostic(DiagnosticHandler handler) {
  handler_ = std::move(handler);
  return *this;
}

PassManager& PassManager::reproducer(std::string path) {
  reproducer_ = std::move(path);
  return *this;
}

PassManager& PassManager::verifyEach(VerifyEach what) {
  verifyEach_ = what;
  return *this;
}

// Binds the options of a step. An alias gives each option to all of its passes that have it.
Result<std::vector<PassManager::Bound>> PassManager::bind(const PipelineStep& step) {
  std::vector<Bound> out;
  if (step.pass->parts.empty()) out.push_back({step, {}});
  for (const NamedAttr& option : step.options)
    if (!step.pass->parts.empty() && !step.pass->option(option.name))
      return unknownOption(step.pass->name, option.name, step.pass->options);
  for (const PassInfo* part : step.pass->parts) {
    AttrList options;
    for (const NamedAttr& option : step.options)
      if (part->option(option.name)) options.push_back(option);
    out.push_back({{part, std::move(options), step.pass}, {}});
  }
  for (Bound& each : out) {
    const PassInfo& pass = *each.step.pass;
    if (!pass.make)
      return fail("{} is not part of this program; use tg-opt{}", pass.name,
                  pass.tool.empty() ? "" : " or " + pass.tool);
    Result<PassFunction> made = PassFunction();
    if (auto thrown = thrownBy([&] { made = pass.make(each.step.options); }))
      return fail("pass {} threw where its options were bound: {}", pass.name, pass.fault())
          .note(nullptr, *thrown);
    TG_TRY(each.run, std::move(made));
    if (!each.run) return fail("pass {} is an empty function: {}", pass.name, pass.fault());
  }
  return out;
}

/// The pipeline of passes that takes a module from one stage to another; "" if there is none.
static std::string howToReach(Stage from, Stage to) {
  std::string out;
  Stage at = from;
  for (const PassInfo& pass : passes()) {
    if (at == to) break;
    if (pass.from != at || pass.to <= at || pass.to > to) continue;
    out += (out.empty() ? "" : ",") + pass.name;
    at = pass.to;
  }
  return at == to && from != to ? out : "";
}

static Error wrongStage(const PassInfo& pass, const Module& module) {
  std::string wanted;
  for (int stage = static_cast<int>(pass.from); stage <= static_cast<int>(pass.to); ++stage)
    if (pass.accepts(static_cast<Stage>(stage)))
      wanted += fmt::format("{}stage({})", wanted.empty() ? "" : " or ", name(static_cast<Stage>(stage)));
  Error error =
      failAt(module.loc, "{} needs {}, but the module is stage({})", pass.name, wanted, name(module.stage));
  std::string missing = howToReach(module.stage, pass.from);
  if (missing.empty()) return error;
  return std::move(error).note(nullptr, "run first: {}", missing);
}

/// Whether all errors are about the extents of a call: an index beyond them may show only after folding a kernel.
static bool isOfInput(const Error& error) {
  const auto& all = error.diagnostics();
  return std::ranges::all_of(
      all, [](const Diagnostic& each) { return each.message.starts_with("tg.custom [custom.c7]"); });
}

static bool hasFunctions(const Module& module) {
  return std::ranges::any_of(
      module.items, [](const auto& item) { return item->kind == ItemKind::func && !isKernelFunc(*item); });
}

/// The error for a pass that left an invalid or another module, or threw.
static Error brokenBy(const PipelineStep& step, std::string what, Error why, const std::string& reproducer) {
  Error error = fail("pass {} {}: {}", step.pass->name, what, step.pass->fault());
  for (const Diagnostic& diagnostic : why.diagnostics()) error.addNote(diagnostic.loc, diagnostic.message);
  if (!reproducer.empty()) error.addNote(nullptr, reproducer);
  return error;
}

std::vector<std::string>& loadedPlugins() {
  static std::vector<std::string> files;
  return files;
}

std::string reproducerText(const std::string& pipeline, const std::string& module) {
  std::string plugins;
  for (const std::string& file : loadedPlugins())
    plugins += fmt::format("--load-pass-plugin='{}' ", insideQuotes(file));
  return fmt::format("// Reproduce: tg-opt {}--pass-pipeline='{}' THIS_FILE\n{}", plugins,
                     insideQuotes(pipeline), module);
}

std::string PassManager::writeReproducer(int index, const std::string& before) const {
  if (reproducer_.empty()) return "";
  const auto written = writeFile(reproducer_, reproducerText(strFrom(index, false), before));
  return written ? fmt::format("the module before the pass is in {}", reproducer_)
                 : fmt::format("there is no reproducer: {}", written.error().message());
}

Result<double> PassManager::runPass(int index, const Bound& bound, const std::string& before,
                                    std::unique_ptr<Module>& module) const {
  const PipelineStep& step = bound.step;
  const std::string where =
      fmt::format("in pass {}{}", step.pass->name, step.of ? " of " + step.of->name : "");
  if (!step.pass->accepts(module->stage)) return wrongStage(*step.pass, *module);
  for (const Instrumentation& hook : hooks_)
    if (hook.before) hook.before(step, index, *module);

  const Stopwatch watch;
  auto onPhase = [&](std::string_view name, double milliseconds) {
    for (const Instrumentation& hook : hooks_)
      if (hook.phase) hook.phase(step, name, milliseconds);
  };
  Result<void> done;
  const bool hadFunctions = hasFunctions(*module);
  const auto thrown = thrownBy([&] {
    done = withinMemory(module->loc, "the compiler", [&] { return bound.run(*module, {handler_, onPhase}); });
  });
  const double elapsed = watch.milliseconds();
  if (thrown) return brokenBy(step, "threw an exception", fail(*thrown), writeReproducer(index, before));
  if (!done) return done.takeError().note(nullptr, where);

  if (!step.pass->mayGive(module->stage)) {
    Error why = fail("it should give stage({}), but the module is stage({})", name(step.pass->to),
                     name(module->stage));
    return brokenBy(step, "left the wrong stage", std::move(why), writeReproducer(index, before));
  }
  if (verifyEach_ != VerifyEach::off) {
    if (auto fits = verifySizes(*module); !fits) return fits.takeError().note(nullptr, where);
    auto valid = verify(*module);
    if (!valid && isOfInput(valid.error())) return valid.takeError().note(nullptr, where);
    if (valid && hadFunctions && !hasFunctions(*module)) valid = fail("it has no function any more");
    if (!valid)
      return brokenBy(step, "made an invalid module", valid.takeError(), writeReproducer(index, before));
  }
  for (const Instrumentation& hook : hooks_)
    if (hook.after) hook.after(step, index, *module, elapsed);
  for (const Instrumentation& hook : hooks_) {
    if (!hook.check) continue;
    if (auto kept = hook.check(step, *module); !kept)
      return brokenBy(step, "changed what the module computes", kept.takeError(),
                      writeReproducer(index, before));
  }
  if (verifyEach_ != VerifyEach::roundtrip) return elapsed;

  auto again = tg::parse(print(*module, {.locations = true}), fmt::format("<after {}>", step.pass->name));
  Result<void> valid = again ? verify(**again) : Result<void>(again.takeError());
  if (valid && print(**again) != print(*module)) valid = fail("the second print differs from the first");
  if (!valid)
    return brokenBy(step, "made a module whose text does not read back", valid.takeError(),
                    writeReproducer(index, before));
  module = *std::move(again);
  return elapsed;
}

Result<void> PassManager::runStep(int index, const std::vector<Bound>& bound,
                                  std::unique_ptr<Module>& module) const {
  const PipelineStep& step = steps_[index];
  if (!step.pass->accepts(module->stage)) return wrongStage(*step.pass, *module);
  const bool isAlias = !step.pass->parts.empty();
  if (isAlias)
    for (const Instrumentation& hook : hooks_)
      if (hook.before) hook.before(step, index, *module);
  const std::string before = reproducer_.empty() ? "" : print(*module);
  double elapsed = 0;
  for (const Bound& each : bound) {
    TG_TRY(const double milliseconds, runPass(index, each, before, module));
    elapsed += milliseconds;
  }
  if (isAlias)
    for (const Instrumentation& hook : hooks_)
      if (hook.after) hook.after(step, index, *module, elapsed);
  return {};
}

Result<void> PassManager::run(std::unique_ptr<Module>& module) const {
  std::vector<std::vector<Bound>> bound;
  for (const PipelineStep& step : steps_) {
    TG_TRY(std::vector<Bound> passes, bind(step));
    bound.push_back(std::move(passes));
  }
  if (!module) return fail("PassManager::run: the module is null");
  TG_CHECK(verify(*module));
  for (size_t index = 0; index < steps_.size(); ++index)
    TG_CHECK(runStep(static_cast<int>(index), bound[index], module));
  return {};
}

}  // namespace tg
