// SPDX-License-Identifier: Apache-2.0
#include "runtime/compile.h"

#include <algorithm>
#include <unordered_set>

#include "ir/text.h"
#include "passes/pass.h"
#include "passes/tuning.h"

namespace tg {

namespace {

Result<void> runManager(PassManager manager, Compiled& work, const DiagnosticHandler& onDiagnostic) {
  double parts = 0;
  Instrumentation hooks;
  hooks.phase = [&](const PipelineStep&, std::string_view name, double milliseconds) {
    work.milliseconds.emplace_back(name, milliseconds);
    parts += milliseconds;
  };
  hooks.after = [&](const PipelineStep& step, int, const Module&, double milliseconds) {
    if (step.of) return;
    work.milliseconds.emplace_back(step.pass->name, milliseconds - parts);
    parts = 0;
  };
  manager.instrument(std::move(hooks));
  if (onDiagnostic) manager.onDiagnostic(onDiagnostic);
  return manager.run(work.module);
}

/// The passes from `stage` to `options.until`, with the options that differ from their defaults.
PassManager restOfPipeline(Stage stage, const Target& target, const CompileOptions& options) {
  const DropCapturesOptions defaults;
  AttrList fuse = {{"target", Attr::string(targetOption(target))}};
  if (options.keepCaptures != defaults.keepCaptures)
    fuse.push_back({"keep-captures", Attr::string(options.keepCaptures)});
  if (options.keepGrads != defaults.keepGrads)
    fuse.push_back({"keep-grads", Attr::boolean(options.keepGrads)});
  if (!options.tuning.empty()) fuse.push_back({"tuning", Attr::string(options.tuning)});
  PassManager manager;
  AttrList plan;
  if (options.reserve) plan.push_back({"reserve", Attr::of(options.reserve)});
  if (!options.budget.empty())
    for (AttrList* each : {&fuse, &plan}) each->push_back({"budget", Attr::string(options.budget)});
  if (options.textOrder) plan.push_back({"order", Attr::string("text")});
  auto add = [&](Stage result, const char* pass, AttrList set) {
    if (stage < result && result <= options.until) manager.add(*findPass(pass), std::move(set));
  };
  add(Stage::fused, "fuse", std::move(fuse));
  add(Stage::planned, "plan", std::move(plan));
  if (options.until == Stage::kernel) add(Stage::kernel, "lower-kernels", {});
  AttrList emit;
  if (!options.shaders.empty()) emit.push_back({"cache", Attr::string(options.shaders)});
  add(Stage::spirv, "spirv-emit", std::move(emit));
  return manager;
}

}  // namespace

Result<void> checkGiven(const Module* module, std::string_view call) {
  if (module) return {};
  return fail("{}: the module is null", call);
}

Result<void> checkLaterOptions(const CompileOptions& options) {
  if (!options.budget.empty() && options.budget != "least")
    if (auto bytes = parseBytes(options.budget); !bytes) return fail("budget: " + bytes.error().message());
  TG_CHECK(readTuning(options.tuning));
  return {};
}

bool hasUpdate(const Module& module, const std::string& function) {
  const Item* func = module.func(function);
  // From stage kernel on, an update is a write to a home, and the text does not tell it from other writes.
  return func && (module.stage >= Stage::kernel || std::ranges::any_of(func->body.ops, [](const Op* op) {
                    return op->code == Opcode::update;
                  }));
}

/// How surely a function updates parameters: 2 if it names its optimizer, 1 if it takes a rate, else 0.
static int updateRank(const Item& func) {
  if (find(func.attrs, "optimizer")) return 2;
  return hostArgument(func, "lr") ? 1 : 0;
}

const Item* updateFunction(const Module& module, const std::string& train) {
  int most = 0;
  for (const Item* func : module.all(ItemKind::func)) most = std::max(most, updateRank(*func));
  const Item* own = module.func(train);
  if (own && most > 0 && updateRank(*own) == most) return nullptr;
  for (const Item* func : module.all(ItemKind::func))
    if (find(func->attrs, "every") && updateRank(*func) == most) return func;
  return nullptr;
}

static bool hasOp(const Item& func, Opcode code) {
  return anyOp(func.body, [&](const Op& op) { return op.code == code; });
}

/// The parameters that the first result of a function, its loss, depends on.
static std::unordered_set<std::string> paramsOfLoss(const Item& func) {
  std::unordered_set<std::string> params;
  std::unordered_set<const Op*> seen;
  std::vector<const Op*> open;
  auto visit = [&](const Value* value) {
    if (value && value->def && seen.insert(value->def).second) open.push_back(value->def);
  };
  if (const Op* end = func.body.terminator(); end && end->numOperands() > 0) visit(end->in(0));
  while (!open.empty()) {
    const Op& op = *open.back();
    open.pop_back();
    if (op.code == Opcode::param) params.insert(op.operands[0].text);
    forEachUse(op, visit);
  }
  return params;
}

bool holdsGradients(const Module& module, const Item& func) {
  if (hasOp(func, Opcode::grad)) return false;
  if (hasOp(func, Opcode::param_grad)) return true;
  const std::unordered_set<std::string> ofLoss = paramsOfLoss(func);
  return anyOp(func.body, [&](const Op& op) {
    return op.code == Opcode::update && module.find(ItemKind::param, op.operands[0].text) &&
           ofLoss.contains(op.operands[0].text);
  });
}

std::string gradPass(const Item& func) { return hasOp(func, Opcode::grad) ? "append-grad" : ""; }

std::string ownPipeline(const Module& module, const std::string& function) {
  const Attr* own = find(module.attrs, "train_pipeline");
  if (!own || module.stage != Stage::tensor || !module.func(function)) return "";
  return holdsGradients(module, *module.func(function)) ? "" : own->text;
}

std::string shaderFolder(const std::string& cache) { return cache.empty() ? "" : cache + "/shaders"; }

Result<Compiled> compile(std::unique_ptr<Module> module, const Target& target,
                         const CompileOptions& options) {
  TG_CHECK(checkGiven(module.get(), "compile"));
  Compiled work{std::move(module), {}};
  if (!options.pipeline.empty()) {
    TG_TRY(PassManager first, PassManager::parse(options.pipeline));
    TG_CHECK(runManager(std::move(first), work, options.onDiagnostic));
  }
  if (work.module->stage >= options.until) return work;
  TG_CHECK(runManager(restOfPipeline(work.module->stage, target, options), work, options.onDiagnostic));
  return work;
}

}  // namespace tg
