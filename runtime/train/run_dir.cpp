// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/run_dir.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <set>
#include <thread>

#include <sys/file.h>

#include <fmt/format.h>

#include "ir/collective.h"
#include "ir/file_io.h"
#include "ir/find.h"
#include "runtime/data/safetensors.h"
#include "runtime/train/checkpoint.h"
#include "runtime/train/checkpoint_folder.h"

namespace tg {

namespace {

namespace fs = std::filesystem;

bool hasAny(const std::string& path, std::initializer_list<std::string_view> names) {
  for (std::string_view name : names)
    if (isThere(fmt::format("{}/{}", path, name))) return true;
  return false;
}

std::string withoutSlash(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

Result<Weights> ofFile(const std::string& path) {
  TG_TRY(SafetensorsFile file, openSafetensors(path));
  Weights out;
  out.file = out.stateFile = out.taken = path;
  out.tensors = out.states = std::move(file.tensors);
  if (auto found = file.metadata.find("tensorgrad.vocabulary"); found != file.metadata.end())
    out.vocabulary = found->second;
  return out;
}

Result<Weights> ofCheckpoint(const std::string& path) {
  std::shared_ptr<const FolderHold> hold = FolderHold::take(path);
  if (std::string damage = checkpointDamage(path); !damage.empty()) return fail("{}: {}", path, damage);
  TG_TRY(TrainState state, readState(path));
  TG_TRY(Weights out, ofFile(fmt::format("{}/{}", path, kModelFile)));
  out.stateFile = fmt::format("{}/{}", path, kOptimizerFile);
  TG_TRY(SafetensorsFile states, openSafetensors(out.stateFile));
  out.states = std::move(states.tensors);
  out.hold = std::move(hold);
  // RUN/ckpt/step_N; a checkpoint that was copied elsewhere belongs to no run.
  const std::string run = runOf(path);
  if (run != path && trainedKind(run) == TrainedKind::run) out.run = run;
  out.taken = fmt::format("{} (step {})", path, state.step);
  out.vocabulary = state.vocabulary;
  out.state = std::move(state);
  return out;
}

Result<Weights> ofRun(const std::string& path) {
  TG_TRY(LatestCheckpoint latest, latestCheckpoint(path));
  std::vector<std::string> skipped;
  for (const CheckpointEntry& entry : latest.skipped)
    skipped.push_back(fmt::format("{} is skipped: {}", entry.path, entry.damage));
  if (!latest.good) {
    std::string message = fmt::format("{} has no {}checkpoint", path, skipped.empty() ? "" : "good ");
    for (const std::string& line : skipped) message += "\n  " + line;
    return fail(message);
  }
  TG_TRY(Weights out, ofCheckpoint(latest.good->path));
  out.run = path;
  out.skipped = std::move(skipped);
  return out;
}

}  // namespace

std::string runOf(const std::string& path) {
  const fs::path given = withoutSlash(path);
  const bool checkpoint =
      given.filename().native().starts_with("step_") && given.parent_path().filename() == "ckpt";
  return (checkpoint ? given.parent_path().parent_path() : given).string();
}

TrainedKind trainedKind(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return isThere(path) ? TrainedKind::file : TrainedKind::none;
  // A step's name is enough, so that a checkpoint whose files are lost is reported as damaged.
  const bool named = fs::path(withoutSlash(path)).filename().native().starts_with("step_");
  if (named || hasAny(path, {kCompleteFile, kStateFile})) return TrainedKind::checkpoint;
  return hasAny(path, {"ckpt", "config.toml", "model.tgir"}) ? TrainedKind::run : TrainedKind::none;
}

Result<Weights> openWeights(const std::string& given) {
  const std::string path = withoutSlash(given);
  switch (trainedKind(path)) {
  case TrainedKind::run: return ofRun(path);
  case TrainedKind::checkpoint: return ofCheckpoint(path);
  case TrainedKind::file: return ofFile(path);
  case TrainedKind::none: break;
  }
  if (!isThere(path)) return fail("{}: no such file, run or checkpoint", path);
  return fail("{}: the folder is neither a run nor a checkpoint", path);
}

Result<TensorSource> paramsOf(const Weights& weights, const Module& module,
                              const std::function<bool(const std::string&)>& except) {
  std::vector<std::pair<std::string, Type>> wanted;
  std::set<std::string> left;  // what the file calls the others
  for (const Item* param : module.all(ItemKind::param))
    if (except && except(param->name))
      left.insert(nameInFile(weights.tensors.tensors, param->name));
    else
      wanted.emplace_back(param->name, param->type);
  auto others = someOf(weights.tensors, [&](const std::string& name) {
    return !module.find(ItemKind::state, name) && !left.contains(name) && !(except && except(name));
  });
  return matchTensors(std::move(others), wanted, weights.file);
}

Result<TensorSource> statesOf(const Weights& weights, const std::vector<Item*>& states, bool all) {
  std::vector<std::pair<std::string, Type>> wanted;
  for (const Item* state : states)
    if (!wholeOf(*state) && (all || secondOf(weights.states.tensors, state->name)))
      wanted.emplace_back(state->name, state->type);
  TensorSource known =
      someOf(weights.states, [&](const std::string& name) { return secondOf(wanted, name) != nullptr; });
  return matchTensors(std::move(known), wanted, weights.stateFile);
}

namespace {

// Waits for processes that hold the lock for a moment only: one that checks whether the run lives (it takes a shared
// lock), or one that was killed and has not quite ended.
constexpr int kAttempts = 100;
constexpr auto kPause = std::chrono::milliseconds(20);

}  // namespace

Result<RunLock> RunLock::take(const std::string& runDir) {
  Descriptor folder = Descriptor::ofFolder(runDir);
  if (!folder) return fail("cannot open {}: {}", runDir, std::strerror(errno));
  for (int i = 0; i < kAttempts; ++i) {
    if (::flock(folder.get(), LOCK_EX | LOCK_NB) == 0) return RunLock(runDir, std::move(folder));
    if (errno != EWOULDBLOCK) return fail("cannot lock {}: {}", runDir, std::strerror(errno));
    std::this_thread::sleep_for(kPause);
  }
  return fail("{} is in use by another process that trains there", runDir);
}

Result<void> RunLock::check() const {
  if (isFileAt(folder_.get(), path_)) return {};
  return fail("{} was moved or deleted, so the run ends", path_);
}

bool isTraining(const std::string& runDir) {
  const Descriptor folder = Descriptor::ofFolder(runDir);
  return folder && ::flock(folder.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

}  // namespace tg
