// SPDX-License-Identifier: Apache-2.0
#include "tools/driver/batch_parts.h"

#include <algorithm>

#include <fmt/format.h>

#include "ir/dims.h"
#include "ir/text.h"
#include "passes/mean_of_parts.h"

namespace tg {

Result<void> runInParts(int64_t microBatch, ModelFlags& model, std::unique_ptr<Module>& module,
                        std::vector<std::string>& notes) {
  if (microBatch == 0) return {};
  const int64_t rows = batchSize(*module->func(kTrain));
  if (rows == 0)
    return fail("--micro-batch: no argument of @train says which axis is its batch; write %x: tensor<…> "
                "{{batch = 0}} in {}",
                model.file);
  if (rows % microBatch)
    return usageError("--micro-batch={} is not a divisor of the batch, {}", microBatch,
                      countText(rows, "row"));
  model.parts = rows / microBatch;
  if (model.parts == 1) return {};
  notes.push_back(
      fmt::format("note: a step runs its {} rows in {} parts and sums their gradients", rows, model.parts));
  if (module->stage == Stage::tensor)
    if (auto same = checkMeanOfParts(*module->func(kTrain)); !same) {
      const Diagnostic& why = same.error().diagnostics().front();
      notes.push_back(fmt::format(
          "note: its results and gradients are means of the parts, which some of the batch's may not be: "
          "{}: {}",
          locString(why.loc), why.message));
    }
  TG_TRY(std::string passes,
         accumulating(model.pipeline, [&](int64_t calls) { return calls * model.parts; }));
  if (passes.empty())
    return fail("--micro-batch sums gradients by append-grad{{accumulate={}}}, and {}", model.parts,
                model.pipeline.empty() ? "no passes are run"
                                       : shellWord(model.pipeline) + " has no append-grad");
  TG_CHECK(checkOwnUpdates(*module, *module->func(kTrain)));
  model.pipeline = std::move(passes);
  return setBatch(kTrain, microBatch, module);
}

MakeSmaller rowsWithin(ModelFlags& model, const Module& written, const std::vector<std::string>& entries,
                       int64_t& microBatch, std::vector<std::string>& notes) {
  const std::shared_ptr<const Module> source = clone(written);
  return [&model, source, entries, &microBatch, &notes](const Target& target, const CompileOptions& options,
                                                        std::optional<Error> why) -> Result<SmallerStep> {
    if (options.budget == "least") return why ? Result<SmallerStep>(std::move(*why)) : SmallerStep{};
    CompileOptions whole = options;
    TG_TRY(whole.pipeline, forRanks(model, model.pipeline));
    PlansInParts plans(*source, entries, target, whole);
    TG_TRY(const PlansInParts::Choice choice, plans.choose(options.budget, std::move(why)));
    if (choice.parts == 1) return SmallerStep{};
    model.parts = choice.parts;
    microBatch = plans.rows() / choice.parts;
    notes.push_back(fmt::format("note: @train: a step runs its {} rows in {} parts and sums their "
                                "gradients, as with --micro-batch={}, so that "
                                "{} do: {:.0f} % more time by the cost model",
                                plans.rows(), choice.parts, microBatch, options.budget,
                                100 * std::max(choice.time - 1, 0.0)));
    if (choice.whole > 0)
      notes.back() += fmt::format("; whole, with --micro-batch={}, it takes {:.0f} % more", plans.rows(),
                                  100 * (choice.whole - 1));
    CompileOptions first;
    first.until = Stage::tensor;
    TG_TRY(first.pipeline, inParts(whole.pipeline, kTrain, plans.rows(), choice.parts));
    TG_TRY(Compiled ran, compile(clone(*source), {}, first));
    return SmallerStep{std::move(ran.module), choice.parts};
  };
}

Result<OpenModel> openStep(const ModelFlags& flags, int64_t microBatch, std::unique_ptr<Module> module) {
  ModelFlags model = flags;
  std::vector<std::string> notes;
  const std::vector<std::string> entries = {kTrain};
  TG_CHECK(runInParts(microBatch, model, module, notes));
  if (!model.memory.empty() && microBatch == 0 && module->stage == Stage::tensor)
    model.smaller = rowsWithin(model, *module, entries, microBatch, notes);
  TG_TRY(OpenModel out, openModel(model, std::move(module), entries));
  for (const std::string& note : notes)
    if (model.notes) fmt::print(stderr, "{}\n", note);
  return out;
}

}  // namespace tg
