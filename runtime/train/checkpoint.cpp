// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include <fmt/format.h>

#include "ir/file_io.h"
#include "ir/find.h"
#include "ir/text.h"
#include "runtime/data/safetensors.h"
#include "runtime/train/checkpoint_folder.h"

namespace tg {

std::map<std::string, std::string> paramsMetadata(const TrainState& state) {
  if (!state.vocabulary) return {};
  return {{"tensorgrad.vocabulary", *state.vocabulary}};
}

static constexpr std::string_view kStepPrefix = "step_";

std::optional<int64_t> stepOf(std::string_view name) {
  if (!name.starts_with(kStepPrefix)) return {};
  name.remove_prefix(kStepPrefix.size());
  return name.starts_with('-') ? std::nullopt : numberIn<int64_t>(name);
}

namespace {

namespace fs = std::filesystem;

std::string folderName(int64_t step) { return fmt::format("{}{:08}", kStepPrefix, step); }

std::string fileIn(const std::string& folder, std::string_view name) {
  return fmt::format("{}/{}", folder, name);
}

Result<FileDigest> writeTensors(const std::string& folder, std::string_view name, const TensorSource& tensors,
                                const std::map<std::string, std::string>& metadata) {
  TG_TRY(NewFile file, NewFile::create(fileIn(folder, name)));
  auto write = [&](std::span<const std::byte> bytes) { return file.write(bytes); };
  TG_CHECK(formatSafetensors(tensors, metadata, write));
  return file.finish();
}

Result<FileDigest> writeText(const std::string& folder, std::string_view name, const std::string& text) {
  TG_TRY(NewFile file, NewFile::create(fileIn(folder, name)));
  TG_CHECK(file.write(std::as_bytes(std::span(text))));
  return file.finish();
}

std::map<std::string, std::string> modelMetadata(const TrainState& state) {
  std::map<std::string, std::string> metadata = paramsMetadata(state);
  metadata["format"] = "tensorgrad";
  metadata["tensorgrad.step"] = fmt::format("{}", state.step);
  metadata["tensorgrad.seed"] = fmt::format("{}", state.seed);
  return metadata;
}

/// Writes a checkpoint's files. Sets the hash of the tensors in `state`, which is known once they have been written.
Result<void> writeFolder(const std::string& folder, TrainState& state, const TensorSource& params,
                         const TensorSource& states) {
  FileDigests files;
  TensorHash hash;
  TG_TRY(FileDigest model, writeTensors(folder, kModelFile, hash.hashed(params), modelMetadata(state)));
  files.emplace_back(kModelFile, model);
  TG_TRY(FileDigest optimizer,
         writeTensors(folder, kOptimizerFile, hash.hashed(states), {{"format", "tensorgrad"}}));
  files.emplace_back(kOptimizerFile, optimizer);
  state.stateHash = hash.digest();
  TG_TRY(FileDigest rest, writeText(folder, kStateFile, stateToJson(state)));
  files.emplace_back(kStateFile, rest);
  const auto complete = writeText(folder, kCompleteFile, formatComplete(files));
  return complete ? Result<void>() : complete.error();
}

/// Whether a good checkpoint with these tensors and this evaluation exists.
bool isSaved(const std::string& path, const TrainState& state) {
  if (!isThere(path) || !checkpointDamage(path).empty()) return false;
  auto there = readState(path);
  return there && there->stateHash == state.stateHash && there->evaluationOwed == state.evaluationOwed;
}

Result<void> save(const std::string& ckpt, TrainState& state, const TensorSource& params,
                  const TensorSource& states) {
  TG_CHECK(makeFolder(ckpt));
  TG_CHECK(syncFolder(fs::path(ckpt).parent_path()));
  const std::string name = folderName(state.step);
  TG_TRY(StagedFolder folder, StagedFolder::create(ckpt, name));
  if (auto written = writeFolder(folder.path(), state, params, states); !written)
    return folder.named(written.error());
  return isSaved(ckpt + "/" + name, state) ? Result<void>() : folder.commit();
}

/// The checkpoint folders of a run, newest first, unverified.
Result<std::vector<CheckpointEntry>> findCheckpoints(const std::string& runDir) {
  std::error_code error;
  if (!fs::is_directory(runDir, error)) return fail("{}: there is no such run", runDir);
  const std::string ckpt = runDir + "/ckpt";
  std::vector<CheckpointEntry> entries;
  // A dangling symbolic link is an error, not an empty folder.
  if (!isNamed(ckpt)) return entries;
  fs::directory_iterator at(ckpt, error);
  for (; !error && at != fs::directory_iterator(); at.increment(error))
    if (auto step = stepOf(at->path().filename().native())) entries.push_back({at->path(), *step, ""});
  if (error) return fail("{}: cannot read: {}", ckpt, error.message());
  std::ranges::sort(entries, [](const CheckpointEntry& a, const CheckpointEntry& b) {
    return std::pair(b.step, b.path) < std::pair(a.step, a.path);
  });
  return entries;
}

/// An entry that is not listed in `files`, or is not a regular file; "" if there is none.
std::string strangeEntry(const std::string& path, const FileDigests& files) {
  std::error_code error;
  fs::directory_iterator at(path, error);
  for (; !error && at != fs::directory_iterator(); at.increment(error)) {
    const std::string name = at->path().filename();
    if (name != kCompleteFile && !secondOf(files, name))
      return fmt::format("{} is not one of the checkpoint's files", name);
  }
  return error ? fmt::format("cannot be read: {}", error.message()) : "";
}

std::string fileDamage(const std::string& path, const std::string& name, const FileDigest& expected) {
  if (!isThere(fileIn(path, name))) return fmt::format("{} is missing", name);
  auto digest = digestFile(fileIn(path, name));
  if (!digest) return fmt::format("{} cannot be read: {}", name, digest.error().message());
  if (digest->bytes != expected.bytes)
    return fmt::format("{} has {}, expected {}", name, countText(digest->bytes, "byte"), expected.bytes);
  if (digest->xxh3 != expected.xxh3) return fmt::format("{} was changed: its XXH3 differs", name);
  return "";
}

/// Holds a checkpoint and sets its `damage`. False if it does not exist any more.
bool verify(CheckpointEntry& entry) {
  entry.hold = FolderHold::take(entry.path);
  if (!entry.hold && !isNamed(entry.path)) return false;
  entry.damage = checkpointDamage(entry.path);
  return true;
}

}  // namespace

std::string checkpointDamage(const std::string& path) {
  std::error_code error;
  if (!isThere(path))
    return fs::is_symlink(fs::symlink_status(path, error)) ? "it is a link to nothing" : "it is not there";
  if (!fs::is_directory(path, error)) return "it is not a folder";
  const fs::file_status complete = fs::status(fileIn(path, kCompleteFile), error);
  if (complete.type() == fs::file_type::not_found)
    return fmt::format("{} is missing: it was never finished", kCompleteFile);
  if (!fs::status_known(complete))
    return fmt::format("{} cannot be read: {}", kCompleteFile, error.message());
  // Opening a pipe would block.
  if (!fs::is_regular_file(complete)) return fmt::format("{} is not a file", kCompleteFile);
  auto text = readFile(fileIn(path, kCompleteFile));
  if (!text) return fmt::format("{} cannot be read: {}", kCompleteFile, text.error().message());
  auto files = parseComplete(asText(*text));
  if (!files) return files.error().message();
  for (std::string_view name : {kModelFile, kOptimizerFile, kStateFile})
    if (!secondOf(*files, name)) return fmt::format("{} does not name {}", kCompleteFile, name);
  for (const auto& [name, digest] : *files)
    if (std::string damage = fileDamage(path, name, digest); !damage.empty()) return damage;
  const auto named = stepOf(fs::path(path).filename().native());
  if (const auto state = readState(path); named && state && state->step != *named)
    return fmt::format("{} is of step {}: the folder was renamed", kStateFile, state->step);
  return strangeEntry(path, *files);
}

Result<std::string> saveCheckpoint(const std::string& runDir, TrainState state, const TensorSource& params,
                                   const TensorSource& states) {
  const std::string ckpt = runDir + "/ckpt";
  const std::string path = ckpt + "/" + folderName(state.step);
  if (state.step < 0) return fail("{}: a step is 0 or more", path);
  auto saved = save(ckpt, state, params, states);
  if (!saved) return fail("cannot save {}: {}", path, saved.error().message());
  return path;
}

Result<std::vector<CheckpointEntry>> listCheckpoints(const std::string& runDir) {
  TG_TRY(std::vector<CheckpointEntry> entries, findCheckpoints(runDir));
  std::erase_if(entries, [](CheckpointEntry& entry) { return !verify(entry); });
  return entries;
}

Result<std::optional<CheckpointEntry>> newestCheckpoint(const std::string& runDir) {
  TG_TRY(const std::vector<CheckpointEntry> entries, findCheckpoints(runDir));
  return entries.empty() ? std::nullopt : std::optional(entries.front());
}

Result<LatestCheckpoint> latestCheckpoint(const std::string& runDir) {
  // Meanwhile the training may save newer checkpoints and prune these; then the list is made again.
  constexpr int kAttempts = 10;
  for (int attempt = 1;; ++attempt) {
    TG_TRY(std::vector<CheckpointEntry> entries, findCheckpoints(runDir));
    LatestCheckpoint latest;
    bool pruned = false;
    for (CheckpointEntry& entry : entries) {
      pruned = !verify(entry) || pruned;
      if (pruned) break;
      if (entry.damage.empty()) {
        latest.good = std::move(entry);
        break;
      }
      latest.skipped.push_back(std::move(entry));
    }
    if (!pruned || attempt == kAttempts) return latest;
  }
}

Result<OpenCheckpoint> openCheckpoint(const std::string& path) {
  if (std::string damage = checkpointDamage(path); !damage.empty()) return fail("{}: {}", path, damage);
  OpenCheckpoint checkpoint;
  checkpoint.path = path;
  TG_TRY(checkpoint.state, readState(path));
  TG_TRY(SafetensorsFile model, openSafetensors(fileIn(path, kModelFile), Halves::keep));
  TG_TRY(SafetensorsFile optimizer, openSafetensors(fileIn(path, kOptimizerFile), Halves::keep));
  checkpoint.params = std::move(model.tensors);
  checkpoint.states = std::move(optimizer.tensors);
  return checkpoint;
}

Result<void> readTensors(const OpenCheckpoint& checkpoint, const UseTensors& use) {
  if (!use) return fail("the function that receives the tensors of {} is empty", checkpoint.path);
  TensorHash hash;
  TG_CHECK(use(ItemKind::param, hash.hashed(checkpoint.params)));
  TG_CHECK(use(ItemKind::state, hash.hashed(checkpoint.states)));
  const std::string found = hash.digest();
  if (found == checkpoint.state.stateHash) return {};
  return fail("{}: the tensors hash to {}, {} says {}", checkpoint.path, found, kStateFile,
              checkpoint.state.stateHash);
}

Result<Checkpoint> readCheckpoint(const std::string& path) {
  TG_TRY(const OpenCheckpoint open, openCheckpoint(path));
  Checkpoint checkpoint{open.state, {}, {}};
  TG_CHECK(readTensors(open, [&](ItemKind kind, const TensorSource& tensors) -> Result<void> {
    TG_TRY((kind == ItemKind::param ? checkpoint.params : checkpoint.states), readAll(tensors));
    return {};
  }));
  return checkpoint;
}

Result<void> pruneCheckpoints(const std::string& runDir, int64_t keepLast, const std::vector<int64_t>& keep) {
  TG_TRY(std::vector<CheckpointEntry> entries, findCheckpoints(runDir));
  const std::string ckpt = runDir + "/ckpt";
  const std::set<int64_t> wanted(keep.begin(), keep.end());
  int64_t good = 0;
  for (CheckpointEntry& entry : entries) {
    const bool enough = keepLast > 0 && good >= keepLast;
    if (!enough || wanted.contains(entry.step)) {
      const bool whole = checkpointDamage(entry.path).empty();
      good += whole && !enough;
      // A damaged checkpoint stays until there is a newer good one.
      if (whole || good == 0) continue;
    }
    TG_CHECK(removeFolder(ckpt, fs::path(entry.path).filename()));
  }
  removeStaleFolders(ckpt);
  return {};
}

Result<std::vector<std::string>> supersedeAfter(const std::string& runDir, int64_t step) {
  TG_TRY(std::vector<CheckpointEntry> entries, findCheckpoints(runDir));
  const std::string ckpt = runDir + "/ckpt";
  removeStaleFolders(ckpt);
  std::vector<std::string> moved;
  std::error_code error;
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    if (entry->step <= step || !checkpointDamage(entry->path).empty()) continue;
    std::string aside = entry->path + ".superseded";
    for (int i = 2; isThere(aside); ++i) aside = fmt::format("{}.superseded.{}", entry->path, i);
    fs::rename(entry->path, aside, error);
    if (error) return fail("{}: cannot move aside: {}", entry->path, error.message());
    moved.push_back(std::move(aside));
  }
  if (!moved.empty()) TG_CHECK(syncFolder(ckpt));
  return moved;
}

}  // namespace tg
