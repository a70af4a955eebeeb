// SPDX-License-Identifier: Apache-2.0
#include "tools/driver/batch_parts.h"

#include <algorithm>

#include <fmt/format.h>

#include "ir/dims.h"
#include "ir/text.h"
#include "passes/mean_of_parts.h"
#include "passes/pass.h"
#include "passes/plan/within.h"

namespace tg {

namespace {

/// The rematerialised work, as a fraction of a call's.
double addedWorkOf(const Module& module) {
  const Attr* added = find(module.attrs, "plan")->find("added_work");
  return added ? added->number() : 0;
}

}  // namespace

// Parts cost at least as much as the whole batch without a budget.
bool wantsParts(const Module& module) { return 1 + addedWorkOf(module) > kWholeBatch; }

Result<void> checkOwnUpdates(const Module& module, const Item& train) {
  for (const Op* op : train.body.ops)
    if (op->code == Opcode::update && module.find(ItemKind::param, op->operands[0].text))
      return failAt(op->loc, "@{} updates @{} itself, which a batch in parts would do once for each part",
                    train.name, op->operands[0].text);
  return {};
}

void keepEntries(Module& module, const std::vector<std::string>& entries) {
  if (module.stage != Stage::tensor) return;
  keepFunctions(module,
                [&](const Item& func) { return find(func.attrs, "every") || contains(entries, func.name); });
}

Result<std::string> accumulating(const std::string& pipeline, const std::function<int64_t(int64_t)>& calls) {
  TG_TRY(PassManager passes, PassManager::parse(pipeline));
  for (PipelineStep& step : passes.steps()) {
    if (step.pass->name != "append-grad") continue;
    const Attr* given = find(step.options, "accumulate");
    set(step.options, "accumulate", Attr::of(calls(given ? given->integer : 1)));
    return passes.str();
  }
  return std::string();
}

Result<std::string> inParts(const std::string& pipeline, const std::string& function, int64_t rows,
                            int64_t parts) {
  if (parts == 1) return pipeline;
  TG_TRY(const std::string passes, accumulating(pipeline, [&](int64_t calls) { return calls * parts; }));
  return fmt::format("set-batch{{n={} func={}}},{}", rows / parts, function, passes);
}

int64_t PlansInParts::rows() const { return batchSize(*source_.func(entries_.front())); }

std::vector<int64_t> PlansInParts::divisors() const {
  std::vector<int64_t> out;
  for (int64_t parts = 2; parts <= rows(); ++parts)
    if (rows() % parts == 0) out.push_back(parts);
  return out;
}

Result<void> PlansInParts::checkParts() const {
  const std::string& function = entries_.front();
  if (source_.stage != Stage::tensor)
    return fail("the module is of stage {}, but a batch in parts needs stage tensor", name(source_.stage));
  if (rows() == 0) return fail("no argument of @{} says which axis is its batch: {{batch = 0}}", function);
  if (rows() == 1) return fail("the batch has only one row");
  TG_TRY(const PassManager pipeline, PassManager::parse(options_.pipeline));
  for (const PipelineStep& step : pipeline.steps()) {
    const bool setsBatch = std::ranges::any_of(step.options, [&](const NamedAttr& option) {
      return step.pass->name == "set-dim" && option.name == "name" && option.value.text == kBatchDim;
    });
    if (setsBatch || step.pass->name == "set-batch")
      return fail("the passes already set the batch size by {}", step.pass->name);
  }
  TG_TRY(const std::string passes, accumulating(options_.pipeline, [](int64_t calls) { return calls; }));
  if (passes.empty()) return fail("the passes have no append-grad, which sums the gradients of parts");
  TG_CHECK(checkOwnUpdates(source_, *source_.func(function)));
  return checkMeanOfParts(*source_.func(function));
}

/// The module as a run has it before plan.
Result<const Module*> PlansInParts::fused(int64_t parts) {
  auto& found = fused_[parts];
  if (found) return found.get();
  std::unique_ptr<Module> module = clone(source_);
  keepEntries(*module, entries_);
  CompileOptions options = options_;
  TG_TRY(options.pipeline, inParts(options_.pipeline, entries_.front(), rows(), parts));
  options.until = Stage::fused;
  // Valid for all budgets: rematerialised ops stay separate, as under a tight budget.
  options.budget = "least";
  options.onDiagnostic = nullptr;
  TG_TRY(Compiled done, compile(std::move(module), target_, options));
  found = std::move(done.module);
  return found.get();
}

Result<PlanCost> PlansInParts::plan(int64_t parts, const std::string& budget) {
  TG_TRY(const Module* module, fused(parts));
  CompileOptions options;
  options.until = Stage::planned;
  options.budget = budget;
  TG_TRY(const Compiled done, compile(clone(*module), target_, options));
  PlanCost cost;
  const Attr& plan = *find(done.module->attrs, "plan");
  for (const char* buffer : {"arena", "io", "persistent"}) cost.bytes += plan.find(buffer)->integer;
  for (const Item* func : done.module->all(ItemKind::func)) {
    const bool train = func->name == entries_.front();
    if (!train && !find(func->attrs, "every")) continue;  // not a part of a step
    for (const Op* op : func->body.ops)
      if (op->code == Opcode::fused)
        cost.work += plan::workOfRegion(*op, *done.module, target_) * static_cast<double>(train ? parts : 1);
  }
  return cost;
}

Error PlansInParts::noneFits(Error why) {
  std::optional<PlanCost> least;
  int64_t of = 1;
  // Fewer rows take less memory, but the sums of gradients take the same for any number of parts.
  for (int64_t parts : {int64_t{1}, rows()}) {
    auto cost = plan(parts, "least");
    if (!cost || (least && cost->bytes >= least->bytes)) continue;
    least = *cost;
    of = parts;
  }
  if (least && of == 1)
    why.addNote(nullptr,
                "its batch in parts would take no less: their gradients are summed in memory of their own");
  if (least && of != 1)
    why.addNote(nullptr,
                "its batch of {0} rows in {0} parts takes {1} bytes ({2}), the least: "
                "--memory={1} chooses that",
                rows(), least->bytes, sizeText(least->bytes));
  return why;
}

Result<PlansInParts::Choice> PlansInParts::choose(const std::string& budget, std::optional<Error> why) {
  auto free = plan(1, "");
  if (!free) {
    if (!why) return free.error();
    return std::move(*why);  // the budget is not the cause
  }
  std::optional<double> best;  // in work
  Choice choice;
  if (!why) {
    TG_TRY(const PlanCost whole, plan(1, budget));
    best = whole.work / kWholeBatch;
    choice.time = choice.whole = whole.work / free->work;
  }
  // If there is a plan for the whole batch, it is no error that parts are impossible.
  if (auto can = checkParts(); !can) {
    if (!why) return choice;
    why->addNote(can.error().diagnostics().front().loc,
                 "the batch is not run in parts: " + can.error().message());
    return std::move(*why);
  }
  TG_TRY(const int64_t most, parseBytes(budget));
  for (const int64_t parts : divisors()) {
    auto least = plan(parts, "");
    if (!least) {
      if (!why) return choice;
      why->addNote(nullptr, "the batch is not run in {} parts: {}", parts, least.error().message());
      return std::move(*why);
    }
    // Within the budget these parts cost at least as much.
    if (best && least->work >= *best) continue;
    auto within = least->bytes <= most ? least : plan(parts, budget);
    if (!within || (best && within->work >= *best)) continue;
    best = within->work;
    choice.parts = parts;
    choice.time = within->work / free->work;
  }
  if (best) return choice;
  return noneFits(std::move(*why));
}

}  // namespace tg
