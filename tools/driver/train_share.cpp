// SPDX-License-Identifier: Apache-2.0
// An update takes a fixed number of batches of the source module. N ranks divide the batches among them, or, if there
// are more ranks than batches, divide the rows of each batch. If an update then takes fewer steps than before, a step
// counts as several, so that the run's step numbers keep their meaning.
#include "tools/driver/train_share.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "ir/collective.h"
#include "ir/dims.h"
#include "ir/text.h"
#include "runtime/compile.h"
#include "runtime/train/run_dir.h"

namespace tg {

namespace {

/// The number of ranks that share the rows of one batch, if `ranks` ranks share `batches` batches of `rows` rows; 0 if
/// that is impossible.
int64_t splitOf(int64_t batches, int64_t rows, int64_t ranks) {
  if (batches % ranks == 0) return 1;
  const bool whole = ranks % batches == 0 && rows > 0 && rows % (ranks / batches) == 0;
  return whole ? ranks / batches : 0;
}

/// The numbers of ranks that can share an update, as text such as `1, 2 or 4`.
std::string possibleRanks(int64_t batches, int64_t rows) {
  std::vector<int64_t> counts;
  for (int64_t count = 1; count <= batches * std::max<int64_t>(rows, 1); ++count)
    if (splitOf(batches, rows, count)) counts.push_back(count);
  std::string out;
  for (size_t i = 0; i < counts.size(); ++i)
    out += fmt::format("{}{}", i == 0 ? "" : i + 1 == counts.size() ? " or " : ", ", counts[i]);
  return out;
}

}  // namespace

bool isDataParallel(const Module& module) {
  for (const Item* func : module.all(ItemKind::func))
    for (const Op* op : func->body.ops)
      if (isCollective(*op) || op->code == Opcode::collective_begin) return true;
  return false;
}

int64_t callsPerUpdate(const Module& module) {
  const Item* update = updateFunction(module, kTrain);
  return update ? find(update->attrs, "every")->integer : 1;
}

Result<RankShare> shareOf(const CLI::App& app, const ModelFlags& model, const TrainFlags& flags,
                          const std::string& run, const Module& source, const TrainState& saved) {
  const int64_t ranks = model.ranks ? model.ranks->ranks() : 1;
  ModelFlags final = model;
  final.file = RunDir{run}.finalModule();
  final.dims.clear();  // already set in the module's text
  RankShare share;
  auto ran = loadModule(app, final);
  if (!ran)
    return ran.takeError().note(
        nullptr, "{} compiled this; --init-from={} starts a new run from its parameters", saved.version, run);
  TG_TRY(share.ran, std::move(ran));
  const int64_t calls = callsPerUpdate(*share.ran), rows = batchSize(*source.func(kTrain));
  // Each call takes a batch, or with --micro-batch a part of one.
  const int64_t parts = flags.microBatch && rows ? rows / flags.microBatch : 1;
  const int64_t all = saved.batches ? saved.batches : saved.ranks * calls, batches = all / parts;
  share.split = splitOf(batches, rows, ranks);
  if (share.split == 0)
    return usageError("{0} was trained by {1} with {2}{3} an update, which {4} cannot share: start {5}{6}; "
                      "--init-from={0} starts a new run from its parameters",
                      run, countText(saved.ranks, "rank"), countText(batches, "batch", "batches"),
                      rows ? fmt::format(" of {}", countText(rows, "row")) : "", countText(ranks, "rank"),
                      possibleRanks(batches, rows),
                      rows ? "" : ", or more where @train says which axis of its inputs is the batch");
  share.batches = std::max<int64_t>(batches / ranks, 1);
  share.begunWith = std::max<int64_t>(calls / parts, 1);
  share.anew = ranks * calls != all;
  share.others = saved.ranks != ranks;
  const int64_t counted =
      saved.stepsPerUpdate ? saved.stepsPerUpdate : std::max<int64_t>(batches / saved.ranks, 1);
  share.stepsPerUpdate = std::lcm(counted, share.batches);
  share.stride = share.stepsPerUpdate / share.batches;
  share.step = saved.step * (share.stepsPerUpdate / counted);
  // Inside an update each rank has sums of its own, and the checkpoint those of rank 0.
  if (std::max(saved.ranks, ranks) > 1 && saved.step % counted != 0)
    return usageError(
        "step {1} of {0} is between two updates, with gradients of {2}: {3}resume a checkpoint of a "
        "multiple of {4} steps",
        run, saved.step, saved.ranks == 1 ? "1 rank" : "rank 0 alone",
        saved.ranks == 1 ? "start 1 rank, or " : "", counted);
  return share;
}

Result<void> recount(const std::string& run, const TrainState& saved, const RankShare& share,
                     const ModelFlags& model, const TrainFlags& flags, OpenTraining& out) {
  const int64_t ranks = model.ranks ? model.ranks->ranks() : 1;
  if (saved.ranks == ranks) return {};
  std::string counted;  // why the numbers of steps have changed
  if (share.step != saved.step)
    counted = fmt::format("an update takes {} instead of {}, so step {} becomes step {}",
                          countText(share.stepsPerUpdate, "step"),
                          share.stepsPerUpdate * saved.step / share.step, saved.step, share.step);
  // The length of a run by --epochs is counted in steps from the data.
  if (!counted.empty() && !out.stepsTyped && !flags.epochs)
    return usageError("{} was trained by {}; with {} {}: give --steps, the last step to train", run,
                      countText(saved.ranks, "rank"), countText(ranks, "rank"), counted);
  std::string note = fmt::format("note: {} was trained by {}; now ", run, countText(saved.ranks, "rank"));
  note += share.split > 1 ? fmt::format("{} share the rows of a batch", share.split)
          : ranks == 1 ? fmt::format("one takes {} an update", countText(share.batches, "batch", "batches"))
                       : fmt::format("each takes {} an update", countText(share.batches, "batch", "batches"));
  if (!counted.empty()) note += "; " + counted;
  if (share.stride > 1) note += fmt::format(", which counts as {} steps", share.stepsPerUpdate);
  out.notes.push_back(std::move(note));
  return {};
}

void rescale(const RankShare& share, Module& source, std::vector<std::string>& notes) {
  if (share.batches == share.begunWith) return;
  for (Item* func : source.all(ItemKind::func)) {
    const Attr* every = find(func->attrs, "every");
    if (!every) continue;
    const int64_t steps = every->integer * share.batches;
    if (steps % share.begunWith == 0)
      set(func->attrs, "every", Attr::of(steps / share.begunWith));
    else
      notes.push_back(fmt::format(
          "note: @{} still runs every {} of a rank, of which an update now takes {} instead of {}",
          func->name, countText(every->integer, "step"), share.batches, share.begunWith));
  }
}

Result<void> passesFor(const RankShare& share, const std::string& run, const Module& source,
                       ModelFlags& model) {
  TG_TRY(const std::string summed,
         accumulating(model.pipeline, [&](int64_t) { return share.batches * model.parts; }));
  if (summed.empty())
    return usageError("another number of ranks needs append-grad{{accumulate=N}}, and the pipeline of {} has "
                      "no append-grad: start as many as it was trained by",
                      run);
  TG_TRY(PassManager passes, PassManager::parse(summed));
  std::vector<PipelineStep>& steps = passes.steps();
  auto named = [&](std::string_view name) {
    return std::ranges::find_if(steps, [&](const auto& step) { return step.pass->name == name; });
  };
  // A run on one rank may have been started without it.
  if (auto step = named("data-parallel"); step != steps.end())
    std::erase_if(step->options, [](const NamedAttr& option) { return option.name == "ranks"; });
  else if (model.ranks && !isDataParallel(source))
    steps.insert(named("append-grad") + 1, {findPass("data-parallel"), {}, nullptr});
  model.pipeline = passes.str();
  return {};
}

}  // namespace tg
