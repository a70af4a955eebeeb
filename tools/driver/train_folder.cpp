// SPDX-License-Identifier: Apache-2.0
#include "tools/driver/train_folder.h"

#include <chrono>
#include <filesystem>
#include <span>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "ir/file_io.h"
#include "ir/json_text.h"
#include "ir/parser.h"
#include "ir/text.h"
#include "runtime/train/checkpoint_folder.h"
#include "runtime/train/log_file.h"
#include "runtime/train/plan_report.h"
#include "runtime/train/run_dir.h"
#include "runtime/train/run_files.h"
#include "tools/driver/io.h"
#include "tools/driver/run_config.h"

namespace tg {

namespace {

namespace fs = std::filesystem;
/// The files that a run begins with. All are written under temporary names before the first is renamed, so that a full
/// disk changes none of them; and synced, so that a power failure leaves each of them complete.
class FirstFiles {
 public:
  Result<void> add(const std::string& path, const std::string& text) {
    TG_TRY(AtomicFile file, AtomicFile::create(path));
    TG_CHECK(file.write(std::as_bytes(std::span(text))));
    files_.push_back(std::move(file));
    return {};
  }
  /// Renames them in the order in which they were added.
  Result<void> commit() {
    for (AtomicFile& file : files_) TG_CHECK(file.commitDurably());
    return {};
  }

 private:
  std::vector<AtomicFile> files_;
};

/// The checkpoint for a path to a run or to one of its checkpoints; none if the run has none.
Result<std::optional<OpenCheckpoint>> checkpointOf(const std::string& path, std::vector<std::string>& notes) {
  std::string chosen = path;
  if (runOf(path) == path) {
    TG_TRY(LatestCheckpoint latest, latestCheckpoint(path));
    std::string damaged;
    for (const CheckpointEntry& entry : latest.skipped) {
      damaged += fmt::format("\n  {}: {}", entry.path, entry.damage);
      notes.push_back(fmt::format("warning: {} is skipped: {}", entry.path, entry.damage));
    }
    if (!latest.good && !damaged.empty())
      return fail("{} has no good checkpoint to go on from{}", path, damaged);
    if (!latest.good) return std::optional<OpenCheckpoint>();
    notes.push_back(fmt::format("resuming {} from step {}", path, latest.good->step));
    chosen = latest.good->path;
  }
  TG_TRY(OpenCheckpoint checkpoint, openCheckpoint(chosen));
  return std::optional(std::move(checkpoint));
}

/// The k-th default name, for a run without a given name.
std::string defaultName(const ModelFlags& model, int number) {
  const std::string stem = model.file == "-" ? "stdin" : fs::path(model.file).stem().string();
  const std::string first = fmt::format("runs/{}-{}", stem, model.seed);
  return number == 1 ? first : fmt::format("{}-{}", first, number);
}

/// Whether something exists at a path; an error if that cannot be determined.
Result<bool> checkedThere(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::status_known(status)) return fail("{}: {}", path, error.message());
  return fs::exists(status);
}

/// Whether the folder contains a run that was stopped before its first checkpoint, so that a new run may start in it. An
/// error if it holds a run with checkpoints; `goesOn` says that the command would resume one.
Result<bool> startsAnew(const std::string& dir, bool goesOn) {
  TG_TRY(const bool begun, checkedThere(RunDir{dir}.config()));
  if (!begun) return false;
  TG_TRY(LatestCheckpoint latest, latestCheckpoint(dir));
  if (!latest.good && latest.skipped.empty()) return true;
  if (goesOn)
    return fail("{}: another process has begun this run meanwhile; repeat the command to go on with it", dir);
  return fail("{0} holds a run already: --resume={0} goes on with it, another --run-dir starts anew", dir);
}

/// Creates a new folder with the first free default name. If several runs start at once, each creates its own.
Result<std::string> makeDefault(const ModelFlags& model) {
  TG_CHECK(makeFolder("runs"));
  std::error_code error;
  for (int number = 1;; ++number) {
    const std::string dir = defaultName(model, number);
    if (fs::create_directory(dir, error)) return dir;
    if (error) return fail("{}: cannot make the folder: {}", dir, error.message());
  }
}

/// Renames what a run that was stopped before its first checkpoint has logged, to keep it.
Result<void> clearRun(OpenTraining& training) {
  const RunDir dir{training.options.runDir};
  training.notes.push_back(
      fmt::format("note: {} was stopped before its first checkpoint, so it starts anew", dir.path));
  std::error_code error;
  for (const std::string& path : {dir.log(), dir.metrics(), dir.samples()}) {
    if (fs::is_empty(path, error) || error) continue;
    TG_TRY(std::string aside, setAside(path));
    training.notes.push_back(
        fmt::format("note: its {} is kept as {}", fs::path(path).filename().string(), aside));
  }
  return syncFolder(dir.path);
}

/// Locks the folder of a new run. `made` becomes true if it makes the folder.
Result<void> claim(const ModelFlags& model, const TrainFlags& flags, OpenTraining& training, bool& made) {
  std::string& dir = training.options.runDir;
  if (!training.lock) {
    if (flags.runDir.empty()) {
      TG_TRY(dir, makeDefault(model));
      made = true;
    } else {
      const bool there = isThere(dir);
      TG_CHECK(makeFolder(dir));
      made = !there;
    }
    TG_TRY(RunLock lock, RunLock::take(dir));
    training.lock.emplace(std::move(lock));
  }
  TG_TRY(const bool anew, startsAnew(dir, flags.resume == "auto"));
  return anew ? clearRun(training) : Result<void>();
}

/// Moves checkpoints later than the one to resume from aside, as they would count as the newest.
Result<void> moveLaterAside(OpenTraining& training) {
  TG_TRY(std::vector<std::string> moved, supersedeAfter(training.options.runDir, training.resumedStep));
  for (const std::string& path : moved)
    training.notes.push_back(
        fmt::format("note: the run goes on from step {}, so a later checkpoint is kept as {}",
                    training.resumedStep, path));
  return {};
}

/// The env.json of the run's first part. Nothing if it is missing or damaged; a warning says so.
Result<Json> earlierEnv(OpenTraining& training) {
  const std::string file = RunDir{training.options.runDir}.env();
  if (!training.resumed || !isNamed(file)) return Json();
  auto text = readInput(file);
  Json env = text ? parseJson<Json>(*text) : Json();
  if (env.is_object()) return env;
  TG_TRY(std::string aside, setAside(file));
  training.notes.push_back(
      fmt::format("warning: {} is damaged, so it is kept as {} and written anew", file, aside));
  return Json();
}

/// Moves a folder or pipe aside that has the name of a file that is only for reading by people, so that it does not
/// stop the run.
Result<void> moveOthersAside(OpenTraining& training) {
  const RunDir dir{training.options.runDir};
  std::error_code error;
  for (const std::string& file :
       {dir.env(), dir.plan(), dir.ranks(), dir.log(), dir.metricsTable(), dir.samples(), dir.page()}) {
    if (expectFile(file)) continue;
    const char* kind = fs::is_directory(file, error) ? "folder" : "pipe, socket or device";
    TG_TRY(std::string aside, setAside(file));
    training.notes.push_back(fmt::format(
        "warning: {} is a {}, so it is kept as {} and the file is written anew", file, kind, aside));
  }
  return {};
}

/// The text of env.json.
Result<std::string> envText(const std::string& command, OpenTraining& training) {
  TG_TRY(Json env, earlierEnv(training));
  if (env.is_null()) {
    const SessionInfo info = training.model.session->info();
    std::error_code error;
    const auto now = std::chrono::system_clock::now();
    env = {{"device", info.device},
           {"driver", info.driver},
           {"why", info.why},
           {"version", training.state.version},
           {"seed", training.state.seed},
           {"parameters", info.parameters},
           {"steps", training.options.steps},
           {"unit", training.feed->unit()},
           {"started", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(now))},
           {"folder", fs::current_path(error).string()},
           {"command", command}};
  }
  env["steps"] = training.options.steps;
  return jsonText(env, 2) + "\n";
}

}  // namespace

TypedOptions typedOptions(const CLI::App& app) {
  TypedOptions typed;
  for (const CLI::Option* option : app.get_options())
    if (!option->empty()) typed[option->get_single_name()] = option->results();
  typed.erase("config");
  return typed;
}

Result<Arguments> overRunConfig(const std::string& run, const TypedOptions& typed) {
  const std::string config = RunDir{run}.config();
  Arguments words = {"--config=" + config};
  // Typed data for training replaces the run's data for training only, and likewise for evaluation.
  if (const auto data = typed.find("data"); data != typed.end()) {
    TG_TRY(const std::string text, readInput(config));
    TG_TRY(const std::vector<ConfigEntry> entries, parseConfig(text, config));
    for (const ConfigEntry& entry : entries)
      for (const std::string& own : entry.values)
        if (entry.key == "data" &&
            std::ranges::find(data->second, isForEvaluation(own), isForEvaluation) == data->second.end())
          words.push_back("--data=" + own);
  }
  for (const auto& [name, values] : typed)
    for (const std::string& value : values)
      if (name != "FILE") words.push_back(fmt::format("--{}={}", name, value));
  if (const auto file = typed.find("FILE"); file != typed.end())
    words.insert(words.end(), {"--", file->second.front()});
  return words;
}

Result<std::string> resumedRun(const TrainFlags& flags) {
  if (flags.resume.empty()) return std::string();
  const bool any = flags.resume == "auto";
  std::string path = any ? flags.runDir : flags.resume;
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  TG_TRY(const bool begun, checkedThere(RunDir{runOf(path)}.config()));
  std::error_code error;
  const fs::path named = fs::weakly_canonical(path, error);  // a link may have any name
  if (begun && path != runOf(path) && !stepOf(named.filename().native()))
    return usageError(
        "--resume={}: this is no checkpoint of the run any more; to go on from it, move it to the "
        "ckpt folder of a copy of the run and rename it to step_N",
        path);
  if (begun) return path;
  return any ? Result<std::string>(std::string()) : fail("--resume={}: no run is there", path);
}

Result<void> lockRun(const std::string& resume, const TrainFlags& flags, bool takesLock, OpenTraining& out) {
  const std::string run = runOf(resume);
  if (!flags.dryRun && takesLock) {
    TG_TRY(RunLock lock, RunLock::take(run));
    out.lock.emplace(std::move(lock));
  }
  TG_TRY(out.checkpoint, checkpointOf(resume, out.notes));
  // Without a checkpoint, --resume=auto takes nothing from these files.
  if (!out.checkpoint && flags.resume == "auto") return {};
  return checkRunFiles(run, out.checkpoint ? &out.checkpoint->state : nullptr);
}

constexpr std::string_view kCompiled = "goes on with the module that it compiled",
                           kTrained = "goes on with the parameters of its checkpoint";

/// Values of an option as they are in any folder.
static std::string joined(const std::string& option, const std::vector<std::string>& values) {
  return listText(
      values, [&](const std::string& value) { return fromAnyFolder(option, value); }, " ");
}

/// Options that a resumed run cannot change, and why.
static constexpr std::pair<const char*, std::string_view> kFixed[] = {
    {"pipeline", kCompiled},   {"set-dim", kCompiled},     {"target", kCompiled}, {"tuning", kCompiled},
    {"memory", kCompiled},     {"micro-batch", kCompiled}, {"weights", kTrained}, {"init-from", kTrained},
    {"init-except", kTrained}, {"set", kTrained}};

/// The value of an option in a config.toml, as it is in any folder; "" if it is not there.
static std::string valueOf(const std::vector<ConfigEntry>& entries, const std::string& option) {
  for (const ConfigEntry& entry : entries)
    if (entry.key == option) return joined(option, entry.values);
  return "";
}

/// The lines of a config.toml with options that the run cannot change.
static std::string fixedLines(const std::string& config) {
  std::string out;
  std::istringstream lines(config);
  for (std::string line; std::getline(lines, line);)
    if (std::ranges::any_of(
            kFixed, [&](const auto& fixed) { return line.starts_with(fmt::format("{}=", fixed.first)); }))
      out += line + "\n";
  return out;
}

Result<void> checkOptions(const std::string& run, const TypedOptions& typed, const TrainState* saved) {
  const std::string file = RunDir{run}.config();
  TG_TRY(const std::string text, readInput(file));
  TG_TRY(const std::vector<ConfigEntry> entries, parseConfig(text, file));
  std::optional<std::vector<ConfigEntry>> begun;
  if (saved && saved->options) {
    TG_TRY(begun, parseConfig(*saved->options, file));
  }
  for (const auto& [option, why] : kFixed) {
    const std::string started = valueOf(begun ? *begun : entries, option), now = valueOf(entries, option);
    const std::string before = started.empty() ? "" : fmt::format(" ({}={})", option, started);
    if (now != started)
      return fail("{}: {}={} was edited, but the run {}{}; --init-from={} without --resume starts a new run "
                  "from its parameters",
                  file, option, now, why, before, run);
    auto given = typed.find(option);
    if (given == typed.end() || joined(option, given->second) == started) continue;
    return fail("--{}: {} {}{}; --init-from={} without --resume starts a new run from its parameters", option,
                run, why, before, run);
  }
  std::error_code error;
  auto dir = typed.find("run-dir");
  if (dir == typed.end() || fs::equivalent(dir->second.front(), run, error)) return {};
  return fail("--run-dir={}: a run that is resumed stays in its folder, {}", dir->second.front(), run);
}

Result<std::string> freshRunDir(const ModelFlags& model, const TrainFlags& flags) {
  if (flags.runDir == "none") return std::string();
  std::error_code error;
  if (flags.runDir.empty()) {
    int number = 1;
    while (isThere(defaultName(model, number))) ++number;
    return defaultName(model, number);
  }
  if (auto free = startsAnew(flags.runDir, flags.resume == "auto"); !free) return free.takeError();
  if (isThere(flags.runDir) && !fs::is_directory(flags.runDir, error))
    return fail("--run-dir={} is not a folder", flags.runDir);
  return flags.runDir;
}

/// Locks the run's folder and writes its first files. `made` becomes true if it makes the folder.
static Result<void> fillRunDir(const CLI::App& app, const std::string& command, const ModelFlags& model,
                               const TrainFlags& flags, OpenTraining& training, bool& made) {
  if (!training.resumed) {
    TG_CHECK(claim(model, flags, training, made));
    TG_CHECK(checkRunKinds(training.options.runDir));
  }
  TG_CHECK(moveLaterAside(training));
  TG_CHECK(moveOthersAside(training));
  training.options.lock = &*training.lock;
  const RunDir dir{training.options.runDir};
  removeStaleFiles(dir.path);
  const Module& final = *training.model.session->module();
  FirstFiles files;
  if (!training.resumed) {
    TG_CHECK(files.add(dir.model(), training.sourceText));
    TG_CHECK(files.add(dir.finalModule(), print(final)));
  }
  TG_TRY(const std::string env, envText(command, training));
  TG_CHECK(files.add(dir.env(), env));
  if (final.stage >= Stage::planned) TG_CHECK(files.add(dir.plan(), toJson(planReport(final, kTrain))));
  std::error_code error;
  const std::string source = fs::absolute(dir.model(), error).lexically_normal().string();
  const RunHashes hashes{training.state.moduleHash, training.state.finalHash};
  // A resumed run keeps what --memory chose.
  const std::string chosen =
      training.microBatch ? fmt::format("micro-batch={}\n", training.microBatch) : std::string();
  const std::string config = configText(app, source) + chosen;
  if (!training.resumed) training.state.options = fixedLines(config);
  TG_CHECK(files.add(dir.config(), formatConfig(hashes, config)));
  return files.commit();
}

Result<void> takeRunDir(const CLI::App& app, const std::string& command, const ModelFlags& model,
                        const TrainFlags& flags, OpenTraining& training) {
  if (training.options.runDir.empty()) return {};
  bool made = false;
  auto filled = fillRunDir(app, command, model, flags, training, made);
  std::error_code error;
  if (!filled && made) fs::remove(training.options.runDir, error);  // unless something is in it
  return filled;
}

}  // namespace tg
