// SPDX-License-Identifier: Apache-2.0
// tg-run eval: computes the loss on evaluation data in the same way as training does.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ir/access.h"
#include "ir/collective.h"
#include "ir/json_text.h"
#include "ir/op_view.h"
#include "ir/stopwatch.h"
#include "ir/text.h"
#include "runtime/train/evaluation.h"
#include "runtime/train/run_dir.h"
#include "runtime/train/run_files.h"
#include "tools/driver/ranks.h"
#include "tools/driver/train_open.h"

namespace tg {

namespace {

namespace fs = std::filesystem;

struct EvalFlags {
  std::vector<std::string> data;
  int64_t batches = -1;  ///< negative if not given
  bool json = false;
};

/// Whether the loss is the mean cross entropy of tokens, in nats.
bool hasPerplexity(const Module& source, const Feed& feed) {
  const Op* end = source.func(kEval)->body.ops.back();
  if (feed.unit() != "tok" || end->code != Opcode::return_ || end->numOperands() == 0) return false;
  const Op* loss = throughCasts(end->in(0))->def;
  return loss && loss->code == Opcode::cross_entropy && as::cross_entropy(*loss).reduction() == "mean" &&
         as::cross_entropy(*loss).label_smoothing() == 0;
}

/// Whether a run was started with evaluation data.
Result<bool> evaluates(const TrainFlags& started) {
  TG_TRY(const DataFlags data, parseData(started.data));
  return !data.val.empty() || started.valFraction > 0;
}

/// Removes everything except @eval from a module that is compiled for a certain number of ranks.
void leaveRanksOut(Module& module) {
  const std::vector<Item*> states = module.all(ItemKind::state);
  if (std::ranges::none_of(states, [](const Item* state) { return wholeOf(*state).has_value(); })) return;
  keepFunctions(module, [](const Item& func) { return func.name == kEval; });
}

/// Everything that an evaluation needs.
struct OpenEvaluation {
  std::shared_ptr<const Weights> trained;  ///< the parameters to evaluate
  std::unique_ptr<Feed> feed;
  OpenModel model;
  bool perplexity = false;
};

struct Eval : Verb {
  ModelFlags model;
  EvalFlags flags;
  RankFlags rankFlags;
  uint64_t runSeed = 0;  ///< the seed in the run's config.toml, which splits its data

  void describe(CLI::App& app) override {
    app.description("Averages the loss and other results of @eval over evaluation data, each full batch "
                    "once. FILE may be a run or one of "
                    "its checkpoints, whose data is then used: the result is the loss that train printed.");
    addModelFlags(app, model);
    addValue(app, "--data", "DATA", flags.data,
             "evaluation data, as for train: text:FILE or 'x=@x.npy,y=@y.npy'");
    addValue(app, "--eval-batches", "N", flags.batches,
             "batches to evaluate; 0: all (default: as the run, else all)")
        ->check(atLeast(0));
    app.add_flag("--json", flags.json, "print JSON");
    addRankFlags(app, rankFlags, "Options");
  }

  Result<int> run(CLI::App& app, const Arguments&) override {
    TG_TRY(model.ranks, joinRanks(rankFlags));
    model.localRank = localRank();
    OpenEvaluation open;
    TG_TRY(const int code, model.ranks ? prepareTogether(app, open) : prepare(app, open));
    if (code != exitOk) return code;
    return evaluate(app, open);
  }

 private:
  /// Checks that all ranks agree; if not, one message is printed.
  Result<int> prepareTogether(CLI::App& app, OpenEvaluation& open) {
    model.notes = model.notes && model.firstRank();
    const Result<int> ready = prepare(app, open);
    RankFacts facts;
    if (ready) {
      facts = factsOf(*open.model.session);
      facts.emplace_back("its parameters", open.trained->file);
      facts.emplace_back("its data", open.feed->fingerprint());
      facts.emplace_back("its batches", std::to_string(flags.batches));
    }
    return compareRanks(app, *model.ranks, ready, facts);
  }

  /// Reads and compiles everything; 0.
  Result<int> prepare(CLI::App& app, OpenEvaluation& out) {
    const TrainedKind kind = trainedKind(model.file);
    const bool ofRun = kind == TrainedKind::run || kind == TrainedKind::checkpoint;
    const bool own = model.weights.empty();
    if (own && ofRun) model.weights = model.file;
    if (model.weights.empty()) return noParameters(app, model.file);
    if (!ofRun && flags.data.empty())
      return usageError("give the data to evaluate on: --data=text:FILE or --data='x=@x.npy,y=@y.npy'");
    TG_TRY(model.given, givenWeights(model));
    out.trained = model.given;
    const Weights& trained = *out.trained;
    std::string runDir;
    TrainFlags started;
    if (ofRun) {
      runDir = runOf(model.file);
      if (trainedKind(runDir) != TrainedKind::run)
        return usageError("{} belongs to no run, so give the module as FILE and this as --weights",
                          model.file);
      TG_CHECK(asStarted(app, runDir, started));
      TG_TRY(const bool hasData, evaluates(started));
      if (flags.data.empty() && !hasData)
        return usageError(
            "{} was trained without data for evaluation: give the data to evaluate on by --data", runDir);
      TG_CHECK(checkRunFiles(runDir, own && trained.state ? &*trained.state : nullptr));
    }
    if (trained.state && app.count("--seed") == 0) model.seed = trained.state->seed;
    model.weights = trained.file;
    TG_TRY(std::unique_ptr<Module> source, loadModule(app, model));
    std::vector<std::string> notes;
    if (!source->func(kTrain) && !source->func(kEval)) return fail("{} has no function @eval", model.file);
    TG_CHECK(ensureEval(*source, notes));
    TG_TRY(out.feed, feedOf(*source, trained, started, runDir));
    if (model.firstRank())
      for (const std::string& note : notes) fmt::print(stderr, "{}\n", note);
    out.perplexity = hasPerplexity(*source, *out.feed);
    TG_TRY(out.model, openSession(app, std::move(source), runDir));
    TG_CHECK(withCode(exitDevice, restoreStates(out.model, trained)));
    return exitOk;
  }

  /// Uses the run's own options for those that were not given.
  Result<void> asStarted(const CLI::App& app, const std::string& runDir, TrainFlags& started) {
    ModelFlags then;
    TG_CHECK(readRunConfig(runDir, then, started));
    model.file = RunDir{runDir}.model();
    if (app.count("--device") == 0) model.device = then.device;
    if (app.count("--seed") == 0) model.seed = then.seed;
    runSeed = then.seed;
    if (flags.batches < 0) flags.batches = started.evalBatches;
    return {};
  }

  static Result<std::unique_ptr<Feed>> openEval(const Module& source, const std::string& data,
                                                const Weights& trained) {
    FeedOptions options;
    options.val = data;
    if (trained.vocabulary) {
      TG_TRY(options.vocabulary, Vocabulary::parse(*trained.vocabulary));
    }
    return openEvalFeed(options, *source.func(kEval));
  }

  Result<std::unique_ptr<Feed>> feedOf(const Module& source, const Weights& trained,
                                       const TrainFlags& started, const std::string& runDir) const {
    if (!flags.data.empty()) {
      TG_TRY(DataFlags data, parseData(flags.data));
      if (!data.train.empty() && !data.val.empty())
        return fail("--data gives two sources; only data for evaluation is read here");
      return openEval(source, data.val.empty() ? data.train : data.val, trained);
    }
    // Parameters of another run are evaluated on this run's split, and say nothing of its data.
    std::error_code error;
    const bool own = trained.state && fs::equivalent(trained.run, runDir, error);
    // Separate evaluation data is opened without the training data. This takes the checkpoint's vocabulary if it is a
    // text, and the fingerprint of the evaluation data, which checkpoints of older versions lack.
    TG_TRY(const DataFlags data, parseData(started.data));
    const bool alone =
        !data.val.empty() && (trained.vocabulary || !isText(data.val)) && (!own || trained.state->evalHash);
    TG_TRY(auto feed, alone
                          ? openEval(source, data.val, trained)
                          : openData(source, own ? trained.state->seed : runSeed, started, trained.vocabulary,
                                     /*evalOnly=*/true));
    const std::string then = !own ? "" : alone ? *trained.state->evalHash : trained.state->dataHash;
    if (model.firstRank() && comparableData(then) && feed->fingerprint() != then)
      fmt::print(stderr, "warning: the data of {} was changed since it was trained\n", runDir);
    return feed;
  }

  /// Opens the run's own final module, so that the loss is exactly the one that the run printed. Otherwise compiles the
  /// source.
  Result<OpenModel> openSession(const CLI::App& app, std::unique_ptr<Module> source,
                                const std::string& runDir) {
    const bool own = model.pipeline.empty() && model.dims.empty() && model.target.empty() &&
                     model.tuning.empty() && model.memory.empty();
    if (!runDir.empty() && own && model.device != "interp") {
      ModelFlags final = model;
      final.file = RunDir{runDir}.finalModule();
      TG_TRY(std::unique_ptr<Module> module, loadModule(app, final));
      if (module->func(kEval)) {
        leaveRanksOut(*module);
        source = std::move(module);
      }
    }
    return openModel(model, std::move(source), {kEval});
  }

  Result<Evaluation> meansOf(Session& session, const Feed& feed, int64_t batches, bool& sessionFailed) const {
    if (model.ranks) return evaluateTogether(session, feed, batches, sessionFailed, *model.ranks);
    TG_TRY(const std::optional<Evaluation> means, tg::evaluate(session, feed, batches, sessionFailed));
    return *means;
  }

  Result<int> evaluate(const CLI::App& app, OpenEvaluation& open) const {
    Session& session = *open.model.session;
    const Feed& feed = *open.feed;
    const Weights& trained = *open.trained;
    const int64_t batches =
        flags.batches > 0 ? std::min(flags.batches, feed.evalBatches()) : feed.evalBatches();
    const Stopwatch watch;
    bool sessionFailed = false;
    auto evaluated = meansOf(session, feed, batches, sessionFailed);
    if (!evaluated) {
      Error error =
          withCode(sessionFailed && session.device() ? exitDevice : exitInput, evaluated.takeError());
      if (model.ranks) return endJob(app, *model.ranks, error);
      return error;
    }
    const double loss = evaluated->loss;
    const double seconds = watch.seconds();
    // All ranks have the result, and rank 0 prints it.
    if (!model.firstRank()) return std::isfinite(loss) ? int{exitOk} : int{exitNumeric};
    if (flags.json) {
      nlohmann::ordered_json out = {{"weights", trained.file},
                                    {"step", nullptr},
                                    {"loss", loss},
                                    {"perplexity", nullptr},
                                    {"results", nlohmann::ordered_json::object()},
                                    {"batches", batches},
                                    {"batches_in_data", feed.evalBatches()},
                                    {"seconds", seconds},
                                    {"device", session.info().device}};
      if (trained.state) out["step"] = trained.state->step;
      for (const auto& [name, mean] : evaluated->others) out["results"][name] = mean;
      if (open.perplexity) out["perplexity"] = std::exp(loss);
      fmt::print("{}\n", jsonText(out, 2));
    } else {
      for (const std::string& line : feed.describe()) fmt::print("{}\n", line);
      fmt::print("val loss {:.4f}{}{} | {} of {} | {:.2f} s\n", loss,
                 open.perplexity ? fmt::format(" | perplexity {:.4g}", std::exp(loss)) : "",
                 otherText(evaluated->others), batches, countText(feed.evalBatches(), "batch", "batches"),
                 seconds);
    }
    if (std::isfinite(loss)) return exitOk;
    return withCode(exitNumeric, fail("the loss is {}", loss));
  }
};

}  // namespace

std::unique_ptr<Verb> makeEval() { return std::make_unique<Eval>(); }

}  // namespace tg
