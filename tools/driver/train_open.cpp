// SPDX-License-Identifier: Apache-2.0
#include "tools/driver/train_open.h"

#include <algorithm>

#include <fmt/format.h>

#include "ir/dims.h"
#include "ir/divide.h"
#include "ir/parser.h"
#include "ir/text.h"
#include "passes/pass.h"
#include "runtime/compile.h"
#include "runtime/data/spec.h"
#include "runtime/train/feed.h"
#include "runtime/train/metrics.h"
#include "runtime/train/run_dir.h"
#include "runtime/train/run_files.h"
#include "tools/driver/batch_parts.h"
#include "tools/driver/io.h"
#include "tools/driver/listings.h"
#include "tools/driver/train_folder.h"
#include "tools/driver/train_share.h"

namespace tg {

namespace {

constexpr int64_t kDefaultSteps = 100;
constexpr int64_t kMostSteps = int64_t(1) << 62;  ///< leaves room to round up, for ranks and parts

/// The passes that make a module learn; none if it already learns. They are not guessed, because that would choose the
/// optimizer for the author.
Result<std::string> pipelineOf(const Module& module, const ModelFlags& model) {
  if (!module.func(kTrain)) return fail("{} has no function @train", model.file);
  if (!model.pipeline.empty()) return model.pipeline;
  if (std::string own = ownPipeline(module, kTrain); !own.empty()) return own;
  if (hasUpdate(module, kTrain)) return std::string();
  if (holdsGradients(module, *module.func(kTrain)))
    return fail("@train of {0} has gradients but updates nothing, so it cannot learn. Append an optimizer:\n"
                "  tg-run train {0} --pipeline='append-adam{{lr=1e-3}}' …",
                model.file);
  return fail("@train of {0} updates nothing, so it cannot learn. Append a gradient and an optimizer:\n"
              "  tg-run train {0} --pipeline='append-grad,append-adam{{lr=1e-3}}' …\n"
              "  or write train_pipeline = \"append-grad,append-adam{{lr=1e-3}}\" on the module",
              model.file);
}

/// An error if the passes set extents of @train or @eval: the data is read for those that they have before.
Result<void> checkKeepsShapes(const Module& module, const std::string& pipeline) {
  TG_TRY(PassManager passes, PassManager::parse(pipeline));
  std::erase_if(passes.steps(), [](const PipelineStep& step) {
    return step.pass->name != "set-batch" && step.pass->name != "set-dim";
  });
  if (passes.steps().empty() || module.stage != Stage::tensor) return {};
  std::unique_ptr<Module> after = clone(module);
  TG_CHECK(runFirst(passes.str(), after, {}));
  for (const char* name : {kTrain, kEval}) {
    const Item *own = module.func(name), *set = after->func(name);
    if (!own || std::ranges::equal(
                    own->body.args, set->body.args, {}, [](const auto& arg) { return arg->type; },
                    [](const auto& arg) { return arg->type; }))
      continue;
    return usageError(
        "--pipeline: {}: data is read for the shapes before the passes; set extents by --set-dim=NAME=N",
        passes.str());
  }
  return {};
}

/// The different schedules of rates, the first of which a step reports.
std::vector<std::string> schedulesOf(const Module& module) {
  std::vector<std::string> schedules;
  for (const Item* func : module.all(ItemKind::func))
    for (const auto& argument : func->body.args)
      if (hostRole(*argument) == "lr")
        if (const Attr* schedule = find(argument->attrs, "schedule")) addOnce(schedules, schedule->str());
  return schedules;
}

/// Converts the command line's options to the trainer's, and checks them against the data. The number of steps is
/// rounded up to a multiple of the stride.
Result<TrainerOptions> trainerOptions(const TrainFlags& flags, const Feed& feed, int64_t stride,
                                      bool resumed) {
  TrainerOptions out;
  out.stride = stride;
  out.steps = flags.steps ? flags.steps : kDefaultSteps;
  if (flags.epochs) {
    if (!feed.stepsIn(1)) return fail("--epochs: this data has no end, so it has no epochs; give --steps");
    const int64_t each = feed.stepsIn(1) * stride;
    if (flags.epochs > kMostSteps / each)
      return fail("--epochs={} of {} each are more than {} steps", flags.epochs, countText(each, "step"),
                  kMostSteps);
    out.steps = feed.stepsIn(flags.epochs) * stride;
  }
  if (out.steps > kMostSteps) return fail("--steps={} is more than {} steps", out.steps, kMostSteps);
  out.steps = alignTo(out.steps, stride);
  for (const auto& [flag, given] :
       {std::pair("--eval-every", flags.evalEvery > 0), std::pair("--eval-batches", flags.evalBatches > 0),
        std::pair("--keep-best", flags.keepBest)})
    if (given && !feed.evalBatches())
      return fail("{}: there is nothing to evaluate on: {}", flag,
                  resumed ? "the run was started without data for evaluation"
                          : "give --data=val=… or --val-fraction=0.1");
  if (auto formats = parseMetricsFormats(flags.metrics); !formats)
    return fail("--metrics={}: {}", flags.metrics, formats.error().message());
  out.evalEvery = flags.evalEvery;
  out.evalBatches = flags.evalBatches;
  if (!flags.ckptEvery.empty()) {
    TG_TRY(Interval every, parseInterval("--ckpt-every", flags.ckptEvery));
    out.checkpointEvery = every.steps;
    out.checkpointSeconds = every.seconds;
  }
  if (!flags.maxTime.empty()) {
    TG_TRY(out.maxSeconds, parseDuration("--max-time", flags.maxTime));
  }
  out.keepLast = flags.keepLast;
  out.keepBest = flags.keepBest;
  out.onNan = flags.onNan == "skip" ? OnNan::skip : OnNan::stop;
  return out;
}

Error differs(std::string_view what, const std::string& run) {
  return fail("{}, so {} cannot go on as it was; --init-from={} starts a new run from its parameters", what,
              run, run);
}

/// An error if FILE is not the module of the run. The run's own copy is compared as text, since another version may
/// print it differently.
Result<void> checkSameModule(const OpenTraining& training, const std::string& run, const ModelFlags& model,
                             const TrainState& saved) {
  if (model.file == RunDir{run}.model() || saved.moduleHash == textHash(training.sourceText)) return {};
  return differs(fmt::format("{} is not the module the run was started with", model.file), run);
}

/// The option that changes the batches of the run; "" if the files themselves differ, or if it is not known.
std::string otherBatches(const std::string& run, const TrainFlags& flags) {
  ModelFlags model;
  TrainFlags started;
  if (!readRunConfig(run, model, started)) return "";
  if (flags.valFraction != started.valFraction)
    return fmt::format("--val-fraction={} is not the run's {}", flags.valFraction, started.valFraction);
  if (flags.noShuffle != started.noShuffle)
    return fmt::format("--no-shuffle={} is not what the run was started with", flags.noShuffle);
  if (flags.overfitOneBatch != started.overfitOneBatch)
    return fmt::format("--overfit-one-batch={} is not what the run was started with", flags.overfitOneBatch);
  return "";
}

/// An error if the data is not that of the run.
Result<void> checkSameData(const std::string& run, const TrainFlags& flags, const TrainState& saved,
                           OpenTraining& out) {
  if (!comparableData(saved.dataHash)) {
    out.notes.push_back("warning: the run was started by an older version, so whether its data is the "
                        "same is not known");
    return {};
  }
  if (saved.dataHash == out.feed->fingerprint()) return {};
  if (const std::string option = otherBatches(run, flags); !option.empty())
    return withCode(exitUsage, differs(option, run));
  return differs("the data is not what the run was started with", run);
}

Result<void> setParams(Session& session, const std::vector<std::string>& specs) {
  for (const std::string& text : specs) {
    TG_TRY(auto spec, parseInputSpec(text, "parameter"));
    const Item* param = session.module()->find(ItemKind::param, spec.first);
    if (!param)
      return fail("--set names '{}', which is not a parameter; there are {}", spec.first,
                  listText(session.module()->all(ItemKind::param), &Item::name));
    TG_TRY(HostArray value, load(spec.second, param->type, spec.first, "parameter"));
    TG_CHECK(session.uploadParams({{spec.first, std::move(value)}}, {.partial = true}));
  }
  return {};
}

/// Checks that the source module and its data allow `--sample-every`, before anything is compiled.
Result<void> checkSampling(const Module& source, const Feed& feed, const TrainFlags& flags) {
  auto of = [](const std::string& why) { return fail("--sample-every: " + why); };
  if (auto found = predictor(source); !found) return of(found.error().message());
  if (!feed.vocabulary()) return of("only data of a text (text:FILE) says what tokens stand for");
  auto known = feed.vocabulary()->check(flags.samplePrompt);
  if (known) return known;
  if (flags.samplePrompt == TrainFlags().samplePrompt)
    return of("texts begin with a line break, which the vocabulary lacks; name another --sample-prompt");
  return fail("--sample-prompt: " + known.error().message());
}

Result<void> openSampler(const TrainFlags& flags, uint64_t seed, OpenTraining& out) {
  auto predict = predictor(*out.model.source);
  if (!predict)
    return fail("--sample-every: the run was started without it, so @predict is not in the module it goes on "
                "with; tg-run sample reads its checkpoints");
  SampleOptions options;
  options.prompt = flags.samplePrompt;
  options.tokens = flags.sampleTokens;
  options.seed = seed;
  out.sampler =
      std::make_unique<Sampler>(*out.model.session, **predict, *out.feed->vocabulary(), std::move(options));
  return {};
}

/// The state to continue from: that of the checkpoint, or a new one, updated with what applies from now on.
void beginState(const TrainState& saved, const RankShare& share, const ModelFlags& model, OpenTraining& out) {
  const SessionInfo info = out.model.session->info();
  out.state = saved;
  out.state.seed = model.seed;
  if (!out.resumed) {
    out.state.moduleHash = textHash(out.sourceText);
    out.state.finalHash = textHash(print(*out.model.session->module()));
  }
  out.state.dataHash = out.feed->fingerprint();
  out.state.evalHash = out.feed->evalFingerprint();
  const std::string version = versionText();
  out.state.version = version.substr(0, version.find('\n'));
  if (out.resumed && (saved.device != info.device || saved.driver != info.driver))
    out.notes.push_back(
        fmt::format("note: the run was on {}{}; on another device or driver it goes on within "
                    "rounding, not bit for bit",
                    saved.device, saved.driver.empty() ? "" : fmt::format(" ({})", saved.driver)));
  out.state.step = share.step;
  out.state.stride = share.stride;
  out.state.ranks = model.ranks ? model.ranks->ranks() : 1;
  if (out.resumed) {
    out.state.stepsPerUpdate = share.stepsPerUpdate;
  } else {
    const int64_t calls = callsPerUpdate(*out.model.session->module());
    out.state.batches = out.state.ranks * calls;
    out.state.stepsPerUpdate = calls / model.parts;
  }
  out.state.device = info.device;
  out.state.driver = info.driver;
  if (out.feed->vocabulary()) out.state.vocabulary = out.feed->vocabulary()->printable();
}

/// Restores params and states from the checkpoint. At the end of an update no gradients are accumulated. So sums that
/// only the module has keep their zeros, and sums that only the checkpoint has are ignored.
Result<void> restore(Session& session, const OpenCheckpoint& checkpoint, const RankShare& share) {
  const UploadOptions given{.partial = share.others, .others = share.others};
  TG_CHECK(readTensors(checkpoint, [&](ItemKind kind, const TensorSource& tensors) -> Result<void> {
    TG_CHECK(session.writeTensors(kind, tensors, kind == ItemKind::state ? given : UploadOptions()));
    return {};
  }));
  return session.setSteps(share.step / share.stride);
}

/// A resumed run uses the module that it ran before. If its ranks now share the batches differently, the module is
/// compiled again.
Result<void> goOnWith(ModelFlags& model, const std::string& run, RankShare& share,
                      std::unique_ptr<Module>& module, OpenTraining& out) {
  if (share.anew) {
    rescale(share, *module, out.notes);
    return passesFor(share, run, *module, model);
  }
  if (model.device == "interp") return {};
  module = std::move(share.ran);
  // The module is already compiled, and the files that these flags name may be gone.
  model.pipeline.clear();
  model.target.clear();
  model.tuning.clear();
  model.memory.clear();
  return {};
}

}  // namespace

Result<void> ensureEval(Module& module, std::vector<std::string>& notes) {
  if (module.func(kEval)) return {};
  const Item& train = *module.func(kTrain);
  const bool draws = hostArgument(train, "rng");
  if (module.stage != Stage::tensor || draws || hasUpdate(module, kTrain))
    return fail("there is data for evaluation, but no function @eval, and @train {}: write @eval",
                draws ? "draws random numbers" : "learns already");
  std::unique_ptr<Module> copy = clone(module);
  for (auto& item : copy->items.take()) {
    if (item->kind != ItemKind::func || item->name != kTrain) continue;
    item->name = kEval;
    module.items.push_back(std::move(item));
    notes.emplace_back(
        "note: the module has no @eval, so @train as written, without its gradient, evaluates");
    return {};
  }
  return {};
}

Result<std::unique_ptr<Feed>> openData(const Module& source, uint64_t seed, const TrainFlags& flags,
                                       const std::optional<std::string>& vocabulary, bool evalOnly) {
  TG_TRY(DataFlags data, parseData(flags.data));
  FeedOptions options;
  options.evalOnly = evalOnly;
  options.train = data.train;
  options.val = data.val;
  options.valFraction = flags.valFraction;
  options.seed = seed;
  options.shuffle = !flags.noShuffle;
  options.oneBatch = flags.overfitOneBatch;
  if (vocabulary) {
    TG_TRY(options.vocabulary, Vocabulary::parse(*vocabulary));
  }
  return openFeed(options, *source.func(kTrain), source.func(kEval));
}

Result<void> checkTrainFlags(const ModelFlags& model, const TrainFlags& flags) {
  if (flags.resume == "auto" && (flags.runDir.empty() || flags.runDir == "none"))
    return fail("--resume=auto needs a --run-dir");
  if (!flags.lr.empty())
    if (auto rate = LearningRate().set(flags.lr, 0); !rate)
      return fail("--lr={}: {}", flags.lr, rate.error().message());
  if (flags.resume.empty() && flags.runDir != "none")
    TG_CHECK(mayMakeFolder("--run-dir", flags.runDir.empty() ? "runs" : flags.runDir));
  std::vector<std::string> read = filesRead(model);
  read.push_back(flags.initFrom);
  TG_CHECK(notOneFile({{"--out", flags.out}, {"--emit-module", model.emitModule}}));
  return mayReplace("--out", flags.out, beginsSafetensors, read);
}

/// The vocabulary of the parameters with which a new run starts: their tokens keep their meaning. None if the data is no
/// text, or if the file has no vocabulary.
static std::optional<std::string> startingVocabulary(const ModelFlags& model, const DataFlags& data) {
  return model.given && isText(data.train) ? model.given->vocabulary : std::nullopt;
}

/// Opens the data of both functions.
static Result<void> takeData(const ModelFlags& model, const TrainFlags& flags, const TrainState& saved,
                             Module& module, OpenTraining& out) {
  TG_TRY(const DataFlags data, withCode(exitUsage, parseData(flags.data)));
  if (!data.val.empty() || flags.valFraction > 0) TG_CHECK(ensureEval(module, out.notes));
  std::optional<std::string> vocabulary = saved.vocabulary;
  if (!out.resumed) {
    vocabulary = startingVocabulary(model, data);
  }
  // If no data was given, the only possible error is that it is missing.
  TG_TRY(out.feed, withCode(data.train.empty() ? exitUsage : exitInput,
                            openData(module, model.seed, flags, vocabulary)));
  return {};
}

/// The states of a module without an optimizer, such as the running statistics of a norm. If its text updates parameters,
/// states may be moments or sums of gradients, and none is named.
static std::vector<std::string> ownStates(const Module& module) {
  for (const Item* func : module.all(ItemKind::func))
    for (const Op* op : func->body.ops)
      if (op->code == Opcode::update && module.find(ItemKind::param, op->operands[0].text)) return {};
  std::vector<std::string> names;
  for (const Item* state : module.all(ItemKind::state)) names.push_back(state->name);
  return module.stage == Stage::tensor ? names : std::vector<std::string>();
}

/// A new run takes the module's own states from where its parameters come from; the optimizer begins anew.
static Result<void> takeOwnStates(const Weights& weights, const std::vector<std::string>& own,
                                  OpenTraining& out) {
  std::vector<Item*> states;
  size_t lacking = 0;
  for (Item* state : out.model.source->all(ItemKind::state)) {
    if (!contains(own, state->name)) continue;
    if (contains(weights.states.tensors, std::pair(state->name, state->type)))
      states.push_back(state);
    else
      ++lacking;
  }
  if (lacking > 0)
    out.notes.push_back(
        fmt::format("warning: {} lacks {} of the module's states, or has {} with another shape; "
                    "they start at their `init`",
                    weights.file, lacking, lacking == 1 ? "it" : "them"));
  if (states.empty()) return {};
  out.notes.push_back(
      fmt::format("note: {} taken too, the optimizer's begin anew",
                  countText(states.size(), "state of the module is", "states of the module are")));
  TG_TRY(const TensorSource taken, statesOf(weights, states, /*all=*/true));
  return out.model.session->writeTensors(ItemKind::state, taken, {.partial = true, .others = true});
}

/// Checks that @train updates something, and with several ranks, that they share the update.
static Result<void> checkLearns(const ModelFlags& model, const OpenTraining& out) {
  if (!hasUpdate(*out.model.source, kTrain))
    return fail("@train of {} updates nothing after --pipeline={}, so it cannot learn: an optimizer such as "
                "append-adam is missing, or no parameter has a gradient",
                model.file, shellWord(model.pipeline));
  const int64_t ranks = model.ranks ? model.ranks->ranks() : 1;
  if (ranks > 1 && !isDataParallel(*out.model.source))
    return fail(
        "{} ranks would train {} independently: @train does not average gradients. Put data-parallel between "
        "append-grad and the optimizer: --pipeline='append-grad,data-parallel,append-adam{{lr=1e-3}}'",
        ranks, model.file);
  return {};
}

/// An error if a function that only evaluates or samples changes what training goes on with.
static Result<void> checkOnlyReads(const Module& source, const std::vector<std::string>& entries) {
  for (const std::string& name : entries)
    if (name != kTrain && source.stage < Stage::kernel && hasUpdate(source, name))
      return fail(
          "@{0} has a tg.update, so calling it during training would change what training goes on with; "
          "only @train may update",
          name);
  return {};
}

/// Sets the trainer's options, and its memory limit.
static Result<void> takeOptions(const ModelFlags& model, const TrainFlags& flags, const RankShare& share,
                                OpenTraining& out) {
  TG_TRY(out.options, withCode(exitUsage, trainerOptions(flags, *out.feed, share.stride, out.resumed)));
  out.options.ranks = model.ranks.get();
  // The least budget leaves no room for a copy to save from. With a device's free memory, that is checked when a copy
  // is made.
  if (model.memory == "least") out.options.memory = 1;
  if (auto bytes = parseBytes(model.memory)) out.options.memory = *bytes;
  return {};
}

/// Rounds the steps of a run up to whole updates where it must end after one.
static void endAfterUpdate(OpenTraining& out) {
  TrainerOptions& options = out.options;
  const int64_t update = options.stride * out.model.session->info().stepsPerUpdate, steps = options.steps;
  if (!options.wholeUpdates() || steps % update == 0) return;
  options.steps = (steps / update + 1) * update;
  out.notes.push_back(fmt::format(
      "note: the run ends at step {} instead of {}: {} it ends behind an update, which takes {} steps",
      options.steps, steps, options.ranks ? "with several ranks" : "with --on-nan=skip", update));
}

/// Chooses the run's folder, which only the first rank writes, and the initial parameters. For a resumed run, also
/// replaces the module by the run's own.
static Result<void> takeStart(ModelFlags& model, const TrainFlags& flags, const std::string& run,
                              RankShare& share, std::unique_ptr<Module>& module, OpenTraining& out) {
  const bool first = model.firstRank();
  if (out.resumed) {
    if (first) out.options.runDir = run;
    return goOnWith(model, run, share, module, out);
  }
  if (!first) return {};
  TG_TRY(out.options.runDir, freshRunDir(model, flags));
  return {};
}

/// Compiles the module and opens it on its device.
static Result<void> compileTraining(ModelFlags& model, const TrainFlags& flags,
                                    const std::vector<std::string>& entries, std::unique_ptr<Module> module,
                                    OpenTraining& out) {
  if (!out.resumed && !model.memory.empty() && flags.microBatch == 0)
    model.smaller = rowsWithin(model, *module, entries, out.microBatch, out.notes);
  auto opened = openModel(model, std::move(module), entries);
  model.smaller = nullptr;
  TG_TRY(out.model, std::move(opened));
  return checkLearns(model, out);
}

Result<void> openTraining(const CLI::App& app, ModelFlags& model, const TrainFlags& flags,
                          const std::string& run, OpenTraining& out) {
  out.resumed = out.checkpoint.has_value();
  const TrainState saved = out.resumed ? out.checkpoint->state : TrainState();
  out.resumedStep = saved.step;
  TG_TRY(std::unique_ptr<Module> module, loadModule(app, model));
  out.sourceText = print(*module);
  const std::vector<std::string> states = ownStates(*module);
  if (out.resumed) TG_CHECK(checkSameModule(out, run, model, saved));
  TG_TRY(model.pipeline, pipelineOf(*module, model));
  if (!out.resumed) TG_CHECK(checkKeepsShapes(*module, model.pipeline));
  if (!flags.initFrom.empty()) model.weights = flags.initFrom;
  if (!out.resumed && !flags.initExcept.empty() && model.weights.empty())
    return usageError("--init-except={} needs the parameters that --init-from or --weights names",
                      flags.initExcept);
  model.except = flags.initExcept;
  if (out.resumed) model.weights.clear();
  if (!model.weights.empty()) {
    TG_TRY(model.given, givenWeights(model));
  }
  TG_CHECK(takeData(model, flags, saved, *module, out));
  std::vector<std::string> entries = {kTrain};
  if (out.feed->evalBatches()) entries.emplace_back(kEval);
  if (flags.sampleEvery) entries.emplace_back("predict");
  TG_CHECK(checkOnlyReads(*module, entries));
  RankShare share;
  if (out.resumed) {
    TG_CHECK(checkSameData(run, flags, saved, out));
    if (model.seed != saved.seed)
      return withCode(exitUsage,
                      differs(fmt::format("--seed={} is not the run's {}", model.seed, saved.seed), run));
    TG_TRY(share, shareOf(app, model, flags, run, *module, saved));
    TG_CHECK(recount(run, saved, share, model, flags, out));
  }
  if (model.ranks)
    out.feed = rankFeed(std::move(out.feed), model.ranks->rank(), model.ranks->ranks(), share.split, *module);
  if (flags.sampleEvery) {
    TG_CHECK(forOneText(module));
    TG_CHECK(checkSampling(*module, *out.feed, flags));
  }
  TG_CHECK(takeOptions(model, flags, share, out));
  const int64_t unit = out.options.wholeUpdates() ? share.stepsPerUpdate : share.stride;
  if (out.stepsTyped && out.options.steps + unit <= share.step)
    return usageError("{} fewer than the {} that the run has done; resume an earlier checkpoint, "
                      "--resume=RUN/ckpt/step_N, to go back",
                      countText(out.options.steps, "step in all is", "steps in all are"), share.step);
  if (share.split > 1) TG_CHECK(setBatch(kTrain, batchSize(*module->func(kTrain)) / share.split, module));
  TG_CHECK(runInParts(flags.microBatch, model, module, out.notes));
  TG_CHECK(takeStart(model, flags, run, share, module, out));
  TG_CHECK(compileTraining(model, flags, entries, std::move(module), out));
  if (model.given) TG_CHECK(takeOwnStates(*model.given, states, out));
  model.given.reset();
  out.options.ahead = out.model.session->device() != nullptr;
  if (flags.sampleEvery) TG_CHECK(openSampler(flags, model.seed, out));
  endAfterUpdate(out);
  const std::vector<std::string> schedules = schedulesOf(*out.model.source);
  out.schedule = fmt::format("{}", fmt::join(schedules, ", "));
  out.rates = schedules.size();
  beginState(saved, share, model, out);
  auto ready = out.resumed ? restore(*out.model.session, *out.checkpoint, share)
                           : setParams(*out.model.session, flags.set);
  out.checkpoint.reset();
  return ready;
}

Result<void> readRunConfig(const std::string& run, ModelFlags& model, TrainFlags& flags) {
  CLI::App app("", "config.toml");
  addModelFlags(app, model);
  addTrainFlags(app, flags);
  const std::string file = RunDir{run}.config();
  TG_CHECK(checkRunKinds(run));
  TG_CHECK(readInput(file));  // for its error: CLI11 does not say why it cannot read a file
  try {
    app.parse(std::vector<std::string>{"--config=" + file});
  } catch (const CLI::ParseError& error) {
    const std::string why = error.what();
    return fail(why.starts_with(file) ? why : fmt::format("{}: {}", file, why));
  }
  return checkRunFiles(run, nullptr);
}

Result<std::unique_ptr<Module>> loadSource(const CLI::App& app, ModelFlags& model) {
  const TrainedKind kind = trainedKind(model.file);
  if (kind != TrainedKind::run && kind != TrainedKind::checkpoint) return loadModule(app, model);
  const std::string run = runOf(model.file);
  ModelFlags started;
  TrainFlags rest;
  if (trainedKind(run) != TrainedKind::run)
    return usageError("{} belongs to no run, so give the module as FILE", model.file);
  TG_CHECK(readRunConfig(run, started, rest));
  model.file = RunDir{run}.model();
  if (model.pipeline.empty()) model.pipeline = started.pipeline;
  std::vector<std::string> left;
  if (!started.memory.empty()) left.push_back("--memory=" + started.memory);
  if (rest.microBatch) left.push_back(fmt::format("--micro-batch={}", rest.microBatch));
  if (!left.empty() && model.notes)
    fmt::print(stderr, "note: {} runs with {}, which is left out here\n", run, fmt::join(left, " "));
  TG_TRY(std::unique_ptr<Module> module, loadModule(app, model));
  takeOwnPipeline(*module, model, kTrain);
  return module;
}

}  // namespace tg
