// SPDX-License-Identifier: Apache-2.0
#include "tools/driver/run_setup.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <unordered_set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/file_io.h"
#include "ir/find.h"
#include "ir/kernel/custom.h"
#include "ir/kernel/inline.h"
#include "ir/kernel/rewrites.h"
#include "ir/parser.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "ir/work.h"
#include "passes/pass.h"
#include "runtime/batch.h"
#include "runtime/compile.h"
#include "runtime/train/checkpoint_folder.h"
#include "runtime/train/run_dir.h"
#include "runtime/train/run_files.h"
#include "runtime/tune.h"
#include "tools/driver/batch_parts.h"
#include "tools/driver/bench_models.h"
#include "tools/driver/cache_folder.h"
#include "tools/driver/cli.h"
#include "tools/driver/io.h"
#include "tools/driver/run_config.h"

namespace tg {

namespace fs = std::filesystem;

std::string reportText(const CLI::App& app, const Error& error) {
  const std::string file = configOf(app, error.message());
  return fmt::format("{}: {}", app.get_name(),
                     file.empty() ? error.str() : fail(file + error.message()).str());
}

int report(const CLI::App& app, const Error& error) {
  fmt::print(stderr, "{}", reportText(app, error));
  return error.exitCode();
}

std::string shellWord(const std::string& word) {
  bool plain =
      !word.empty() && word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                              "_-+./:=,@%") == std::string::npos;
  return plain ? word : "'" + insideQuotes(word) + "'";
}

bool beginsSafetensors(std::string_view bytes) {
  uint64_t length = 0;
  if (bytes.size() < 9) return false;
  std::memcpy(&length, bytes.data(), sizeof length);
  return length < (uint64_t{1} << 32) && bytes[8] == '{';
}
bool beginsModule(std::string_view bytes) { return bytes.find("module @") != std::string_view::npos; }
bool beginsPage(std::string_view bytes) { return bytes.starts_with("<!doctype html"); }

Result<void> mayReplace(const std::string& flag, const std::string& path, bool (*begins)(std::string_view),
                        const std::vector<std::string>& read) {
  if (path.empty()) return {};
  if (path == "-") return fail("{}=-: this is not written to standard output: name a file", flag);
  TG_CHECK(mayWrite(flag, path));
  TG_CHECK(notOverOther(flag, path, begins, read));
  // If one of its files were changed, the checkpoint would be damaged.
  std::error_code error;
  if (!isThere(fs::weakly_canonical(path, error).parent_path() / kCompleteFile)) return {};
  return fail("{}={} would change a checkpoint: choose another folder", flag, path);
}

std::vector<std::string> filesRead(const ModelFlags& flags) {
  std::vector<std::string> read;
  for (const std::string& path : {flags.file, flags.weights, flags.tuning, flags.target}) {
    read.push_back(path);
    const TrainedKind kind = trainedKind(path);
    if (kind != TrainedKind::run && kind != TrainedKind::checkpoint) continue;
    const RunDir run{runOf(path)};
    read.insert(read.end(), {run.model(), run.finalModule(), run.config()});
  }
  return read;
}

void addPassFlags(CLI::App& app, ModelFlags& flags, const char* help, const std::string& group) {
  addValue(app, "--pipeline", "PASSES", flags.pipeline, help)->group(group);
  addSetDimFlag(app, flags.dims)->group(group);
  addValue(app, "--load-pass-plugin", "FILE", flags.plugins,
           "a shared object with more passes; may be repeated")
      ->group(group)
      ->check([](const std::string& file) {
        auto loaded = loadPassPlugin(file);
        return loaded ? std::string() : loaded.error().message();
      });
}

void addModelFlags(CLI::App& app, ModelFlags& flags) {
  addValue(app, "FILE", " ", flags.file,
           "the module, of any stage, or a workload such as gpt-nano; - or nothing is standard input");
  auto add = [&](const char* flag, const char* value, std::string& into, const char* help) {
    addValue(app, flag, value, into, help)->group("Model and device");
  };
  add("--device", "DEVICE", flags.device,
      "auto (default), gpu, cpu, an index, a UUID, a part of the name, or interp");
  add("--target", "TARGET", flags.target,
      "compile for a shipped target or a JSON file instead of the device's limits");
  addPassFlags(app, flags, "run these passes first: 'append-grad,append-adam{lr=1e-3}'", "Model and device");
  add("--weights", "PATH", flags.weights, "parameters: a safetensors file, a checkpoint or a run");
  add("--tuning", "FILE", flags.tuning, "schedules measured on the device; auto is tune's file for it");
  add("--memory", "BYTES", flags.memory,
      "most bytes of all buffers, such as 8GiB or least, by recomputing values; auto: the free memory of the "
      "device");
  add("--emit-module", "FILE", flags.emitModule, "write the compiled module to this file");
  addValue(app, "--seed", "N", flags.seed, "seed of parameters and random ops (default: 0)")
      ->group("Model and device");
  app.add_flag("--validation", flags.validation, "run under the Vulkan validation layer")
      ->group("Model and device");
  app.add_flag("--no-cache", flags.noCache, "do not use or write the caches of shaders and pipelines")
      ->group("Model and device");
}

void addQuietFlag(CLI::App& app, ModelFlags& flags, const char* help) {
  app.add_flag_callback(
         "-q,--quiet", [&flags] { flags.notes = false; }, help)
      ->configurable(false);
}

double OpenModel::compileMs() const {
  double sum = 0;
  for (const auto& [phase, ms] : milliseconds) sum += ms;
  return sum;
}

/// Suggests what to type instead of a run or checkpoint, where a module is needed.
static std::string insteadOfRun(const CLI::App& app, const std::string& path) {
  const std::string run = shellWord(runOf(path)), given = shellWord(path), verb = app.get_name();
  if (verb == "tg-run train")
    return fmt::format(
        "{} is a run: {} --resume={} goes on with it, and {} {}/model.tgir --init-from={} … starts a new one "
        "from its parameters",
        path, verb, given, verb, run, given);
  if (!app.get_option_no_throw("--weights"))
    return fmt::format("{} is a run: {} {}/model.tgir … takes its model", path, verb, run);
  return fmt::format("{} is a run: {} {}/model.tgir --weights={} … takes its model and its parameters", path,
                     verb, run, given);
}

/// The name of the workload that is most similar to the name of a missing file.
static std::string nearWorkload(const std::string& file) {
  const bool isPath = file == "-" || file.find('/') != std::string::npos || std::filesystem::exists(file);
  return isPath ? "" : nearestName(file, benchModelNames());
}

/// Reads the module of the flags without changes.
static Result<std::unique_ptr<Module>> readModule(const CLI::App& app, const ModelFlags& flags) {
  if (auto made = benchModel(flags.file)) return std::move(*made);
  const TrainedKind kind = trainedKind(flags.file);
  if (kind == TrainedKind::run || kind == TrainedKind::checkpoint)
    return usageError("{}", insteadOfRun(app, flags.file));
  auto text = readInput(flags.file);
  if (!text) {
    const std::string near = nearWorkload(flags.file);
    if (near.empty()) return text.takeError();
    return fail("{}; did you mean the workload {}?", text.error().message(), near);
  }
  TG_TRY(std::unique_ptr<Module> module, parse(*text, flags.file == "-" ? "<stdin>" : flags.file));
  TG_CHECK(verify(*module));
  return module;
}

Error noParameters(const CLI::App& app, const std::string& file) {
  std::error_code error;
  if (!file.empty() && file != "-" && !benchModel(file) && !isThere(file))
    return fail("{}: no such file or folder", file);
  if (fs::is_directory(file, error)) return fail("{}: the folder is neither a run nor a checkpoint", file);
  if (fs::path(file).extension() == ".safetensors")
    return usageError("{0} has weights only: give the module too, {1} model.tgir --weights={0}", file,
                      app.get_name());
  return usageError("give the parameters: --weights=PATH of a run, checkpoint or safetensors");
}

static void tellSkipped(const ModelFlags& flags, const Weights& weights) {
  if (!flags.firstRank()) return;
  for (const std::string& line : weights.skipped) fmt::print(stderr, "warning: {}\n", line);
}

Result<std::string> takeRun(ModelFlags& flags) {
  const TrainedKind kind = trainedKind(flags.file);
  if (kind != TrainedKind::run && kind != TrainedKind::checkpoint) return std::string();
  TG_TRY(Weights trained, openWeights(flags.file));
  if (trained.run.empty())
    return usageError("{} belongs to no run, so give the module as FILE and this as --weights", flags.file);
  TG_CHECK(checkRunFiles(trained.run, &*trained.state));
  std::string run = trained.run;
  if (!flags.weights.empty()) return run;
  flags.weights = flags.file;
  tellSkipped(flags, trained);
  flags.given = std::make_shared<Weights>(std::move(trained));
  return run;
}

Result<std::unique_ptr<Module>> loadModule(const CLI::App& app, const ModelFlags& flags) {
  TG_TRY(std::unique_ptr<Module> module, readModule(app, flags));
  TG_CHECK(setDims(flags, module));
  return module;
}

Result<std::unique_ptr<Module>> loadModel(const CLI::App& app, ModelFlags& flags,
                                          const std::string& function) {
  TG_TRY(std::unique_ptr<Module> module, loadModule(app, flags));
  if (module->func(function)) {
    takeOwnPipeline(*module, flags, function);
    return module;
  }
  // The passes may make it, as append-grad{accumulate=4} makes @apply.
  takeOwnPipeline(*module, flags, kTrain);
  TG_TRY(const std::string pipeline, forRanks(flags, flags.pipeline));
  TG_CHECK(runFirst(pipeline, module, toldOn(flags)));
  flags.pipeline.clear();
  if (!module->func(function)) return fail("{} has no function @{}", flags.file, function);
  return module;
}

void takeOwnPipeline(const Module& module, ModelFlags& flags, const std::string& function) {
  if (flags.pipeline.empty()) flags.pipeline = ownPipeline(module, function);
}

Result<std::string> tuningOf(const std::string& flag, const Module& module,
                             const vulkan::DeviceInfo* device) {
  if (!flag.empty() && module.stage > Stage::tensor)
    return usageError("--tuning chooses schedules, and the module is of stage {}, which has its own; it "
                      "needs one of stage tensor",
                      name(module.stage));
  if (flag != "auto") return flag;
  if (!device)
    return usageError(
        "--tuning=auto is what tune measured on a Vulkan device for its own target; name the file");
  const std::string file = tuningFile(userCacheFolder(), *device);
  if (file.empty()) return usageError("--tuning=auto: there is no folder for caches, so name the file");
  if (!std::filesystem::exists(file))
    return fail("--tuning=auto: {} is not there, since nothing was tuned on {} with this driver: tg-run tune "
                "FILE makes it",
                file, device->name);
  return file;
}

/// The states that functions of a module read or update. From stage kernel on the text does not say which: all of them.
static std::vector<Item*> statesUsed(const Module& module) {
  std::vector<Item*> states = module.all(ItemKind::state);
  if (module.stage >= Stage::kernel) return states;
  std::unordered_set<std::string> used;
  for (const Item* func : module.all(ItemKind::func))
    for (const Op* op : func->body.ops)
      if (op->code == Opcode::state || op->code == Opcode::update) used.insert(op->operands[0].text);
  std::erase_if(states, [&](const Item* state) { return !used.contains(state->name); });
  return states;
}

/// Warns of states that the weights lack and that a function reads without updating them, such as the running mean of a
/// batch norm in @predict.
static void warnOfInitialStates(const Module& module, const Weights& weights, const TensorSource& states) {
  if (module.stage >= Stage::kernel) return;
  std::vector<std::string> lacking;
  for (const Item* func : module.all(ItemKind::func)) {
    std::unordered_set<std::string> updated;
    for (const Op* op : func->body.ops)
      if (op->code == Opcode::update) updated.insert(op->operands[0].text);
    for (const Op* op : func->body.ops) {
      if (op->code != Opcode::state) continue;
      const std::string& name = op->operands[0].text;
      if (!secondOf(states.tensors, name) && !updated.contains(name)) addOnce(lacking, "@" + name);
    }
  }
  if (!lacking.empty())
    fmt::print(
        stderr,
        "warning: {} has no value of {}: the initial value is used; --weights of a run or a checkpoint has "
        "all states\n",
        weights.file, fmt::join(lacking, ", "));
}

Result<void> restoreStates(const OpenModel& model, const Weights& weights) {
  Session& session = *model.session;
  TG_TRY(const TensorSource states, statesOf(weights, statesUsed(*model.source), /*all=*/false));
  warnOfInitialStates(*model.source, weights, states);
  TG_CHECK(session.writeTensors(ItemKind::state, states, {.partial = true, .others = true}));
  if (weights.state) TG_CHECK(session.setSteps(weights.state->step / weights.state->stride));
  return {};
}

Result<std::shared_ptr<const Weights>> givenWeights(const ModelFlags& flags) {
  if (flags.given) return flags.given;
  TG_TRY(Weights opened, openWeights(flags.weights));
  tellSkipped(flags, opened);
  return std::shared_ptr<const Weights>(std::make_shared<Weights>(std::move(opened)));
}

namespace {

/// Mesa's CPU device passes every dispatch to a pool of threads, which costs more than a tiny kernel. The size of the
/// pool is read once, when the driver is loaded.
bool leavePoolOut(const Module& module) {
  if (std::getenv("LP_NUM_THREADS") || !isTiny(module)) return false;
  return ::setenv("LP_NUM_THREADS", "0", 0) == 0;
}

Result<void> loadWeights(const OpenModel& model, const ModelFlags& flags) {
  TG_TRY(const std::shared_ptr<const Weights> weights, givenWeights(flags));
  if (flags.notes && weights->file != flags.weights)
    fmt::print(stderr, "note: parameters of {}\n", weights->taken);
  const Module& module = *model.session->module();
  auto isExcepted = [&](const std::string& name) { return globMatch(flags.except, name); };
  const std::vector<Item*> params = module.all(ItemKind::param);
  if (!flags.except.empty() &&
      std::ranges::none_of(params, [&](const Item* param) { return isExcepted(param->name); }))
    return usageError("--init-except={} names no parameter; there are {}", flags.except, namesOf(params));
  TG_TRY(const TensorSource matched, paramsOf(*weights, module, isExcepted));
  TG_CHECK(model.session->writeTensors(ItemKind::param, matched, {.partial = !flags.except.empty()}));
  if (flags.states) TG_CHECK(restoreStates(model, *weights));
  return {};
}

/// The number of bytes that --memory means; "" if it is not given.
Result<std::string> budgetOf(const ModelFlags& flags, const vulkan::DeviceInfo* device,
                             const Module& module) {
  if (flags.memory.empty()) return std::string();
  if (flags.memory != "auto" && flags.memory != "least")
    if (auto bytes = parseBytes(flags.memory); !bytes) return fail("--memory: " + bytes.error().message());
  if (module.stage >= Stage::planned)
    return fail("--memory is kept when memory is planned, and {} is of stage {}", flags.file,
                name(module.stage));
  if (!device && flags.target.empty())
    return fail("--memory is what a device's buffers may take; the interpreter has none");
  if (flags.memory != "auto") return flags.memory;
  if (!device) return fail("--memory=auto is what a Vulkan device has free; give a number of bytes");
  // Keep a part free for drivers and transfers.
  return std::to_string(device->freeBytes - device->freeBytes / 16);
}

/// A pass fuse in --pipeline does not know the device: it uses the target in its options, or the least one.
void noteOtherTarget(const ModelFlags& flags, const Module& module, const Target& device) {
  if (!flags.notes || flags.pipeline.empty() || module.stage == Stage::tensor) return;
  const auto own = targetOf(module.attrs);
  if (!own || own->name == device.name) return;
  fmt::print(
      stderr,
      "note: the passes make kernels for target '{}', not for {}: leave fuse out of --pipeline, and they are "
      "made for the device\n",
      own->name, device.name);
}

/// Compiles the module up to stage spirv for the target of the flags or the device. If it exceeds the memory budget, or
/// keeps it only by costly rematerialisation, it is compiled again with its batch in parts. With the interpreter and
/// without --target, it is not compiled. Writes --emit-module.
Result<void> compileModel(const ModelFlags& flags, const std::vector<std::string>& entries,
                          SessionOptions& options, std::unique_ptr<Module>& module, OpenModel& out) {
  const vulkan::DeviceInfo* open = options.device.open ? &options.device.open->info() : nullptr;
  CompileOptions rest;
  TG_TRY(rest.budget, withCode(exitUsage, budgetOf(flags, open, *module)));
  if (!open && flags.target.empty()) {
    TG_CHECK(tuningOf(flags.tuning, *module, nullptr));
    if (!flags.tuning.empty())
      return usageError("--tuning is of a device's kernels; the interpreter has none");
    if (flags.emitModule.empty()) return {};
    return usageError("--emit-module with --device=interp needs a --target");
  }
  Target target;
  if (flags.target.empty()) {
    target = targetOn(*module, options.device.open, options.cache, flags.notes);
    noteOtherTarget(flags, *module, target);
  } else {
    TG_TRY(target, takeTarget(flags.target, *module));
  }
  TG_TRY(rest.tuning, tuningOf(flags.tuning, *module, flags.target.empty() ? open : nullptr));
  rest.shaders = shaderFolder(options.cache);
  if (flags.emitModule.empty()) rest.keepCaptures = fmt::format("{}", fmt::join(flags.captures, "|"));
  std::vector<std::string> notes;
  rest.onDiagnostic = [&](const Diagnostic& diagnostic) { notes.push_back(diagnostic.message); };
  auto done = compile(std::move(module), target, rest);
  if (flags.smaller && !rest.budget.empty() && (!done || wantsParts(*done->module))) {
    TG_TRY(SmallerStep smaller,
           flags.smaller(target, rest, done ? std::nullopt : std::optional(done.takeError())));
    if (smaller.module) {
      if (flags.emitModule.empty()) keepEntries(*smaller.module, entries);
      out.source = clone(*smaller.module);
      options.parts = out.parts = smaller.parts;
      notes.clear();
      done = compile(std::move(smaller.module), target, rest);
    }
  }
  for (const std::string& note : notes)
    if (!rest.budget.empty() && flags.notes) fmt::print(stderr, "note: {}\n", note);
  if (!done) return done.takeError();
  module = std::move(done->module);
  for (auto& phase : done->milliseconds) out.milliseconds.push_back(std::move(phase));
  return flags.emitModule.empty() ? Result<void>() : writeOutput(flags.emitModule, print(*module));
}

}  // namespace

std::string deviceName(const ModelFlags& flags) {
  return flags.ranks && flags.device == "auto" ? fmt::format("auto:{}", flags.localRank) : flags.device;
}

Result<SessionOptions> openDevice(const ModelFlags& flags, const Module& module) {
  SessionOptions options;
  options.device = DeviceChoice(flags.device);
  options.seed = flags.seed;
  options.keepGrads = false;
  options.trainPipeline = "";  // the passes of the flags have already run
  if (flags.device == "interp") return options;
  bool poolLeftOut = leavePoolOut(module);
  const std::string name = deviceName(flags);
  if (flags.opened && flags.openedAs != name)
    return usageError("the run uses --device={}, but NCCL was initialized on --device={}: give --device, or "
                      "--collective=mpi",
                      flags.device, flags.openedAs);
  vulkan::DeviceOptions wanted{name, flags.validation, false, {}};
  wanted.statistics = flags.statistics;
  options.device.open = flags.opened;
  if (!flags.opened) {
    TG_TRY(options.device.open, withCode(exitDevice, vulkan::Device::open(wanted)));
  }
  options.onDiagnostic = [tell = toldOn(flags)](const Diagnostic& diagnostic) {
    if (diagnostic.severity != Severity::remark) tell(diagnostic);
  };
  if (!flags.noCache) options.cache = userCacheFolder();
  const vulkan::DeviceInfo& info = options.device.open->info();
  if (flags.notes && poolLeftOut && info.name.find("llvmpipe") != std::string::npos)
    fmt::print(
        stderr,
        "note: the model is tiny, so LP_NUM_THREADS=0 is set: kernels run without Mesa's thread pool\n");
  if (info.type == "cpu" && flags.device == "auto" && flags.firstRank())
    fmt::print(stderr, "warning: running on the CPU device {}; --device=cpu says that this is meant\n",
               info.name);
  return options;
}

DiagnosticHandler toldOn(const ModelFlags& flags) {
  return [notes = flags.notes, first = flags.firstRank()](const Diagnostic& diagnostic) {
    if (first && (notes || diagnostic.severity <= Severity::warning))
      fmt::print(stderr, "{}", render(diagnostic));
  };
}

void warnOfLongLoops(const Module& module, const Item& func, const DiagnosticHandler& told) {
  // Iterations of an invocation. The interpreter takes some 10 ns for each.
  constexpr int64_t kLong = 1'000'000'000;
  walk(func.body, [&](const Op& op) {
    const Item* source = op.code == Opcode::custom ? customKernel(op, module) : nullptr;
    if (!source) return;
    const std::unique_ptr<Item> kernel = specialize(*source, boundShapes(op, *source));
    inlineCalls(module, *kernel);
    const int64_t iterations = loopIterations(*kernel).value_or(0);
    if (iterations >= kLong)
      told({Severity::warning,
            op.loc,
            fmt::format("the loops of kernel @{} make up to {} iterations in an invocation, for which the "
                        "interpreter takes minutes or hours",
                        source->name, iterations),
            {}});
  });
}

Result<void> runFirst(const std::string& pipeline, std::unique_ptr<Module>& module,
                      const DiagnosticHandler& told,
                      std::vector<std::pair<std::string, double>>* milliseconds) {
  if (pipeline.empty()) return {};
  CompileOptions first;
  first.pipeline = pipeline;
  first.until = Stage::tensor;
  first.onDiagnostic = told;
  TG_TRY(Compiled ran, compile(std::move(module), {}, first));
  module = std::move(ran.module);
  if (milliseconds) *milliseconds = std::move(ran.milliseconds);
  return {};
}

Result<void> setBatch(const std::string& function, int64_t size, std::unique_ptr<Module>& module) {
  if (module->stage > Stage::tensor)
    return fail("@{} cannot be compiled for a batch of {}: the module is of stage {}, and another batch "
                "needs one of stage tensor",
                function, size, name(module->stage));
  return runFirst(fmt::format("set-batch{{n={} func={}}}", size, function), module, {});
}

Result<bool> forOneText(std::unique_ptr<Module>& module) {
  const Item* own = module->func("predict");
  if (!own || own->body.args.size() != 1 || hasBatch(*own, 1)) return false;
  TG_CHECK(setBatch("predict", 1, module));
  return true;
}

Result<std::string> forRanks(const ModelFlags& flags, const std::string& pipeline) {
  if (!flags.ranks || pipeline.empty()) return pipeline;
  TG_TRY(PassManager passes, PassManager::parse(pipeline));
  bool parts = false;
  for (PipelineStep& step : passes.steps()) {
    if (step.pass->name != "data-parallel" || !find(step.options, "shard")) continue;
    parts = true;
    if (!find(step.options, "ranks")) set(step.options, "ranks", Attr::of(flags.ranks->ranks()));
  }
  return parts ? passes.str() : pipeline;
}

Result<OpenModel> openModel(const ModelFlags& flags, std::unique_ptr<Module> module,
                            const std::vector<std::string>& entries) {
  if (flags.emitModule != "-")
    TG_CHECK(
        withCode(exitUsage, mayReplace("--emit-module", flags.emitModule, beginsModule, filesRead(flags))));
  OpenModel out;
  if (!flags.ran) {
    TG_TRY(const std::string pipeline, forRanks(flags, flags.pipeline));
    TG_CHECK(runFirst(pipeline, module, toldOn(flags), &out.milliseconds));
  }
  if (flags.emitModule.empty()) keepEntries(*module, entries);
  out.source = clone(*module);
  TG_TRY(SessionOptions options, openDevice(flags, *module));
  options.ranks = flags.ranks;
  options.parts = out.parts = flags.parts;
  TG_CHECK(compileModel(flags, entries, options, module, out));
  TG_TRY(out.session, fromDevice(Session::create(std::move(module), options)));
  const SessionInfo info = out.session->info();
  for (const auto& phase : info.milliseconds) out.milliseconds.push_back(phase);
  if (!flags.weights.empty()) TG_CHECK(loadWeights(out, flags));
  return out;
}

}  // namespace tg
