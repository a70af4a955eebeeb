// SPDX-License-Identifier: Apache-2.0
#include "tools/driver/inspect_facts.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <vector>

#include <fmt/format.h>

#include "ir/file_io.h"
#include "ir/json_text.h"
#include "ir/op_info.h"
#include "ir/parser.h"
#include "ir/target.h"
#include "ir/verify.h"
#include "runtime/bundle/bundle.h"
#include "runtime/train/checkpoint.h"
#include "runtime/train/checkpoint_folder.h"
#include "runtime/train/plan_report.h"
#include "runtime/train/run_dir.h"
#include "runtime/train/run_files.h"
#include "runtime/train/run_page.h"
#include "runtime/train/tensor_facts.h"
#include "tools/driver/io.h"
#include "tools/driver/run_config.h"
#include "tools/driver/run_setup.h"

namespace tg {

namespace {

namespace fs = std::filesystem;

constexpr const char* kManifest = "manifest.json";
constexpr size_t kHead = 1 << 16;  ///< bytes read to find out the kind of a file

Facts tensorJson(const TensorFacts& tensor) {
  Facts shape = Facts::array();
  for (int64_t extent : tensor.shape) shape.push_back(extent);
  return {{"name", tensor.name},   {"dtype", tensor.dtype}, {"shape", std::move(shape)},
          {"bytes", tensor.bytes}, {"min", tensor.min},     {"max", tensor.max},
          {"mean", tensor.mean},   {"std", tensor.std},     {"non_finite", tensor.nonFinite}};
}

Result<Facts> tensorsOf(const std::string& file, Facts* metadata) {
  TG_TRY(FileFacts read, fileFacts(file));
  Facts out = Facts::array();
  for (const TensorFacts& tensor : read.tensors) out.push_back(tensorJson(tensor));
  if (metadata) {
    *metadata = Facts::object();
    for (const auto& [key, value] : read.metadata) (*metadata)[key] = value;
  }
  return out;
}

/// The contents of state.json, or nothing if it cannot be read.
Facts stateJson(const std::string& path) {
  auto state = readState(path);
  return state ? Facts::parse(stateToJson(*state), nullptr, false) : Facts();
}

Result<Facts> checkpointFacts(const std::string& path) {
  Facts out = {{"kind", "checkpoint"}, {"path", path}, {"damage", checkpointDamage(path)}};
  out["state"] = stateJson(path);
  const std::string run = runOf(path);
  if (run != path && trainedKind(run) == TrainedKind::run) out["run"] = run;
  if (out["damage"] != "") return out;
  TG_TRY(out["params"], tensorsOf(fmt::format("{}/{}", path, kModelFile), nullptr));
  TG_TRY(out["states"], tensorsOf(fmt::format("{}/{}", path, kOptimizerFile), nullptr));
  return out;
}

Result<Facts> fileOfTensors(const std::string& path) {
  Facts out = {{"kind", "tensors"}, {"path", path}, {"damage", ""}};
  TG_TRY(out["tensors"], tensorsOf(path, &out["metadata"]));
  return out;
}

Result<std::unique_ptr<Module>> readModule(const std::string& path) {
  TG_TRY(std::string text, readInput(path));
  TG_TRY(std::unique_ptr<Module> module, parse(text, path));
  TG_CHECK(verify(*module));
  return module;
}

/// Reads a module. A file whose name does not say that it is a module must begin like one, or its kind is unknown.
Result<Facts> moduleOf(const std::string& path) {
  if (!path.ends_with(".tgir") && expectFile(path) && !beginsModule(beginningOf(path, kHead)))
    return fail("{}: the file is neither a safetensors file, a module nor a bundle's manifest.json", path);
  TG_TRY(auto module, readModule(path));
  Facts out = {{"kind", "module"}, {"path", path}, {"damage", ""}};
  out.update(moduleFacts(*module));
  return out;
}

Result<Facts> bundleFacts(const std::string& path) {
  TG_TRY(BundleCheck check, checkBundle(path));
  const Facts manifest = parseJson<Facts>(check.manifest);
  Facts out = {{"kind", "bundle"}, {"path", path}, {"damage", check.damage}};
  for (const char* key : {"name", "entry", "version", "target", "inputs", "results", "needs"})
    out[key] = manifest.value(key, Facts());
  out["kernels"] = manifest["kernels"].size();
  out["dispatches"] = 0;
  for (const Facts& command : manifest.value("commands", Facts::array()))
    if (command.contains("dispatch")) out["dispatches"] = out["dispatches"].get<int64_t>() + 1;
  out["weights_bytes"] = manifest["weights"].value("bytes", Facts());
  out["weights"] = manifest["weights"].value("tensors", Facts::array());
  return out;
}

/// The folders that were moved aside when the run was resumed from an older checkpoint.
Facts supersededOf(const std::string& run) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator at(RunDir{run}.checkpoints(), error), end; !error && at != end;
       at.increment(error))
    if (at->path().filename().native().find(".superseded") != std::string::npos) found.push_back(at->path());
  std::ranges::sort(found);
  return found;
}

/// The reason why a run's options cannot be read; "" if they can, or if there are none. Without the line of hashes,
/// only the syntax is checked.
std::string configDamage(const std::string& run) {
  const std::string file = RunDir{run}.config();
  if (!isNamed(file)) return "";
  auto text = readInput(file);
  if (!text) return text.error().message();
  auto entries = parseConfig(*text, file);
  return entries ? "" : entries.error().message();
}

/// Adds what the newest good checkpoint says about the run.
Result<void> addNewest(const std::string& run, const std::vector<CheckpointEntry>& entries,
                       const CheckpointEntry& newest, Facts& out) {
  TG_TRY(TrainState state, readState(newest.path));
  if (auto same = checkRunFiles(run, &state); !same && out["damage"] == "")
    out["damage"] = same.error().message();
  // Metrics have a row for every so many steps, or may be damaged.
  out["step"] = std::max(out["step"].get<int64_t>(), state.step);
  out["seconds"] = std::max(out["seconds"].get<double>(), state.seconds);
  if (state.bestValLoss) {
    out["best"] = {{"step", state.bestStep}, {"val_loss", *state.bestValLoss}, {"path", nullptr}};
    for (const CheckpointEntry& entry : entries)
      if (entry.step == state.bestStep && entry.damage.empty()) out["best"]["path"] = entry.path;
  }
  // All steps were done, but the last checkpoint is damaged.
  if (out["state"] == "finished" && newest.step < out["steps"]) {
    out["state"] = name(RunState::stopped);
    out["owed"] = checkpointOwed(out["steps"].get<int64_t>());
  }
  return {};
}

Result<void> addCheckpoints(const std::string& run, Facts& out) {
  TG_TRY(std::vector<CheckpointEntry> entries, listCheckpoints(run));
  Facts list = Facts::array();
  const CheckpointEntry* newest = nullptr;
  for (const CheckpointEntry& entry : entries) {
    Facts one = {{"path", entry.path}, {"step", entry.step}, {"damage", entry.damage}};
    if (auto state = readState(entry.path)) one["val_loss"] = orNull(state->valLoss);
    list.push_back(std::move(one));
    if (entry.damage.empty() && !newest) newest = &entry;
    // Training can continue from an older good checkpoint, but the progress after it is lost.
    if (!entry.damage.empty() && out["damage"] == "")
      out["damage"] = fmt::format("ckpt/{}: {}", fs::path(entry.path).filename().string(), entry.damage);
  }
  out["checkpoints"] = std::move(list);
  out["superseded"] = supersededOf(run);
  out["best"] = nullptr;
  out["resume"] = nullptr;
  if (!newest && !entries.empty()) {
    out["damage"] = "no checkpoint is good";
    return {};
  }
  if (newest) TG_CHECK(addNewest(run, entries, *newest, out));
  // No command resumes a run without options, such as one by a program of the user's own.
  if (out["state"] == "running" || !isThere(RunDir{run}.config())) return {};
  out["resume"] = "tg-run train --resume=" + shellWord(run);
  if (newest && out["state"] == "finished")
    out["resume"] = fmt::format("{} --steps={}", out["resume"].get<std::string>(), 2 * newest->step);
  return {};
}

Result<Facts> envOf(const std::string& file) {
  TG_CHECK(expectFile(file));
  TG_TRY(const std::string text, readInput(file));
  Facts env = parseJson<Facts>(text);
  return env.is_object() ? Result<Facts>(std::move(env)) : fail("{}: expected a JSON object", file);
}

Result<Facts> runFacts(const std::string& path) {
  Facts out = {{"kind", "run"}, {"path", path}, {"damage", ""}};
  const auto damaged = [&](const Error& error) {
    if (out["damage"] == "") out["damage"] = error.message();
  };
  RunSummary summary;
  if (auto read = summarizeRun(path))
    summary = std::move(*read);
  else
    damaged(read.error());
  out["state"] = name(summary.state);
  out["owed"] = summary.owed;
  out["step"] = summary.step;
  out["steps"] = summary.steps;
  out["seconds"] = summary.time;
  out["loss"] = orNull(summary.loss);
  out["val_loss"] = orNull(summary.valLoss);
  out["items_per_s"] = orNull(summary.itemsPerSecond);
  out["eta_seconds"] = orNull(summary.eta);
  if (isNamed(RunDir{path}.env())) {
    auto env = envOf(RunDir{path}.env());
    if (env)
      out["env"] = std::move(*env);
    else
      damaged(env.error());
  }
  if (auto same = checkRunFiles(path, nullptr); !same) damaged(same.error());
  if (out["damage"] == "") out["damage"] = configDamage(path);
  if (out["damage"] == "" && isThere(RunDir{path}.model())) {
    TG_TRY(auto module, readModule(RunDir{path}.model()));
    out["module"] = moduleFacts(*module);
  }
  TG_CHECK(addCheckpoints(path, out));
  return out;
}

bool startsLikeTensors(const std::string& path) {
  if (path.ends_with(".safetensors")) return true;
  // Do not read a pipe here: what is read from it is gone.
  return !path.ends_with(".tgir") && expectFile(path) && beginsSafetensors(beginningOf(path, kHead));
}

/// The bundle's folder, given the path of its manifest.
std::string bundleOf(const std::string& path) {
  const fs::path file = path;
  if (file.filename() != kManifest) return "";
  return file.has_parent_path() ? file.parent_path().string() : ".";
}

}  // namespace

Result<Facts> inspectPath(const std::string& given) {
  std::string path = given;
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  switch (trainedKind(path)) {
  case TrainedKind::run: return runFacts(path);
  case TrainedKind::checkpoint: return checkpointFacts(path);
  case TrainedKind::file:
    if (const std::string bundle = bundleOf(path); !bundle.empty()) return bundleFacts(bundle);
    return startsLikeTensors(path) ? fileOfTensors(path) : moduleOf(path);
  case TrainedKind::none: break;
  }
  if (isThere(fs::path(path) / kManifest)) return bundleFacts(path);
  if (!isThere(path)) return fail("{}: no such file or folder", path);
  return fail("{}: the folder is neither a run, a checkpoint nor a bundle", path);
}

namespace {

/// The number of ops of each name, the most frequent first.
Facts opCounts(const Block& body) {
  std::map<std::string_view, int64_t> counts;
  walk(body, [&](const Op& op) { ++counts[op.info().name]; });
  std::vector<std::pair<std::string_view, int64_t>> rows(counts.begin(), counts.end());
  std::ranges::stable_sort(rows, [](auto& a, auto& b) { return a.second > b.second; });
  Facts out = Facts::object();
  for (const auto& [op, count] : rows) out[std::string(op)] = count;
  return out;
}

Facts storageFacts(const Module& module, ItemKind kind) {
  int64_t count = 0, elements = 0, bytes = 0;
  Facts list = Facts::array();
  for (const Item* item : module.all(kind)) {
    ++count;
    elements += item->type.elements();
    bytes += item->type.bytes();
    list.push_back({{"name", item->name}, {"type", item->type.str()}, {"bytes", item->type.bytes()}});
  }
  return {{"count", count}, {"elements", elements}, {"bytes", bytes}, {"all", std::move(list)}};
}

Facts functionFacts(const Module& module, const Item& func) {
  Facts inputs = Facts::array(), results = Facts::array();
  for (const auto& arg : func.body.args) {
    Facts input = {{"name", arg->name}, {"type", arg->type.str()}};
    if (const Attr* host = find(arg->attrs, "host")) input["host"] = host->text;
    inputs.push_back(std::move(input));
  }
  for (const NamedType& result : func.results)
    results.push_back({{"name", result.name}, {"type", result.type.str()}});
  Facts out = {{"name", func.name}, {"inputs", std::move(inputs)}, {"results", std::move(results)}};
  if (const Attr* every = find(func.attrs, "every")) out["every"] = every->integer;
  out["ops"] = opCounts(func.body);
  if (module.stage >= Stage::planned) {
    const MemoryReport memory = memoryReport(module, func);
    out["memory"] = {{"persistent_bytes", memory.persistentBytes},
                     {"io_bytes", memory.ioBytes},
                     {"arena_bytes", memory.arenaBytes},
                     {"peak_bytes", memory.peakBytes()}};
  }
  return out;
}

}  // namespace

Facts moduleFacts(const Module& module) {
  Facts out = {{"name", module.name}, {"stage", name(module.stage)}};
  if (const Attr* own = find(module.attrs, "train_pipeline")) out["train_pipeline"] = own->text;
  if (module.stage >= Stage::kernel)
    if (auto target = targetOf(module.attrs)) out["target"] = target->name;
  out["params"] = storageFacts(module, ItemKind::param);
  out["states"] = storageFacts(module, ItemKind::state);
  out["functions"] = Facts::array();
  for (const Item* func : module.all(ItemKind::func))
    out["functions"].push_back(functionFacts(module, *func));
  int64_t words = 0;
  for (const Item* binary : module.all(ItemKind::binary)) words += static_cast<int64_t>(binary->code.size());
  out["kernels"] = {{"count", module.all(ItemKind::kernel).size()},
                    {"binaries", module.all(ItemKind::binary).size()},
                    {"binary_bytes", words * 4}};
  return out;
}

}  // namespace tg
