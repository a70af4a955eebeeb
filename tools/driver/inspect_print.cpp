// SPDX-License-Identifier: Apache-2.0
// Prints the facts of inspect as text.
#include <algorithm>

#include <fmt/format.h>

#include "ir/json_text.h"
#include "ir/text.h"
#include "tools/driver/inspect_facts.h"
#include "tools/driver/train_console.h"

namespace tg {

namespace {

constexpr size_t kTensorRows = 30, kOpNames = 8, kCheckpointRows = 12;

std::string sizeOf(const Facts& bytes) { return bytes.is_number() ? sizeText(bytes.get<int64_t>()) : "-"; }

/// A value as the text of a cell: strings without quotes, null as a dash.
std::string word(const Facts& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return fmt::format("{:.6g}", value.get<double>());
  return value.is_null() ? "-" : jsonText(value);
}
std::string word(const Facts& object, const char* key) { return word(object.value(key, Facts())); }

std::string countOf(const Facts& count, std::string_view one, std::string_view many = "") {
  return countText(count.get<int64_t>(), one, many);
}

std::string extents(const Facts& shape) {
  if (shape.empty()) return "scalar";
  return listText(
      shape, [](const Facts& extent) { return jsonText(extent); }, "x");
}

void printTensors(const char* title, const Facts& tensors) {
  int64_t bytes = 0, broken = 0, elements = 0;
  size_t width = 4;
  for (const Facts& tensor : tensors) {
    bytes += tensor["bytes"].get<int64_t>();
    broken += tensor["non_finite"].get<int64_t>();
    int64_t count = 1;
    for (const Facts& extent : tensor["shape"]) count *= extent.get<int64_t>();
    elements += count;
    width = std::max(width, tensor["name"].get<std::string>().size());
  }
  fmt::print("{}: {}, {}, {}{}\n", title, countText(tensors.size(), "tensor"), countText(elements, "element"),
             sizeOf(bytes), broken ? fmt::format(", {} NOT FINITE", broken) : "");
  if (tensors.empty()) return;
  width = std::min<size_t>(width, 32);
  fmt::print("  {:<{}}  {:<5} {:<14} {:>10} {:>11} {:>11} {:>11} {:>10}\n", "name", width, "dtype", "shape",
             "size", "min", "max", "mean", "std");
  size_t shown = 0;
  for (const Facts& tensor : tensors) {
    const auto wrong = tensor["non_finite"].get<int64_t>();
    // Tensors with elements that are not finite are always shown.
    if (shown >= kTensorRows && !wrong) continue;
    ++shown;
    auto number = [&](const char* key) { return fmt::format("{:.4g}", tensor[key].get<double>()); };
    fmt::print("  {:<{}}  {:<5} {:<14} {:>10} {:>11} {:>11} {:>11} {:>10}{}\n", word(tensor["name"]), width,
               word(tensor["dtype"]), extents(tensor["shape"]), sizeOf(tensor["bytes"]), number("min"),
               number("max"), number("mean"), number("std"),
               wrong ? fmt::format("  {} not finite", wrong) : "");
  }
  if (shown < tensors.size()) fmt::print("  and {} more; --json has all\n", tensors.size() - shown);
}

std::string signature(const Facts& func) {
  auto list = [&](const char* key, const char* sign) {
    return listText(func[key], [&](const Facts& value) {
      return fmt::format("{}{}: {}", sign, word(value["name"]), word(value["type"]));
    });
  };
  return fmt::format("@{}({}) -> ({})", word(func["name"]), list("inputs", "%"), list("results", ""));
}

void printFunction(const Facts& func) {
  int64_t all = 0;
  std::string most;
  size_t names = 0;
  for (const auto& [op, count] : func["ops"].items()) {
    all += count.get<int64_t>();
    if (names++ < kOpNames)
      most += fmt::format("{}{} {}", most.empty() ? "" : ", ", op, count.get<int64_t>());
  }
  if (names > kOpNames) most += fmt::format(", {} other kinds", names - kOpNames);
  fmt::print("  {}\n    {}: {}\n", signature(func), countText(all, "op"), most);
  if (!func.contains("memory")) return;
  const Facts& memory = func["memory"];
  fmt::print("    memory: persistent {}, io {}, arena {} ({} live at the peak)\n",
             sizeOf(memory["persistent_bytes"]), sizeOf(memory["io_bytes"]), sizeOf(memory["arena_bytes"]),
             sizeOf(memory["peak_bytes"]));
}

void printModule(const Facts& module) {
  fmt::print("module @{}, stage {}{}\n", word(module["name"]), word(module["stage"]),
             module.contains("target") ? ", for " + word(module["target"]) : "");
  for (const char* kind : {"params", "states"})
    fmt::print("{}: {}, {}, {}\n", kind, word(module[kind]["count"]),
               countOf(module[kind]["elements"], "element"), sizeOf(module[kind]["bytes"]));
  if (module.contains("train_pipeline")) fmt::print("train_pipeline: {}\n", word(module["train_pipeline"]));
  if (module["kernels"]["count"] != 0 || module["kernels"]["binaries"] != 0)
    fmt::print("kernels: {}, {} compiled ({})\n", word(module["kernels"]["count"]),
               word(module["kernels"]["binaries"]), sizeOf(module["kernels"]["binary_bytes"]));
  fmt::print("functions:\n");
  for (const Facts& func : module["functions"]) printFunction(func);
}

void printState(const Facts& state) {
  if (!state.is_object()) return;
  fmt::print("step {} | seed {} | {} of training | lr {} | val loss {} (best {} @{})\n", word(state["step"]),
             word(state["seed"]), duration(state["seconds"].is_number() ? state["seconds"].get<double>() : 0),
             word(state["learning_rate"]), word(state["val_loss"]), word(state["best_val_loss"]),
             word(state["best_step"]));
  fmt::print("device {} ({}) | written by {}\n", word(state["device"]), word(state["driver"]),
             word(state["version"]));
  fmt::print("hashes: module {} | compiled {} | data {} | tensors {}\n", word(state["module_hash"]),
             word(state["final_hash"]), word(state["data_hash"]), word(state["state_hash"]));
}

void printCheckpoint(const Facts& facts) {
  fmt::print("checkpoint: {}\n",
             facts["damage"] == "" ? "good, every byte verified" : "DAMAGED: " + word(facts["damage"]));
  printState(facts["state"]);
  if (facts.contains("params")) printTensors("parameters", facts["params"]);
  if (facts.contains("states")) printTensors("states", facts["states"]);
}

void printTensorFile(const Facts& facts) {
  if (!facts["metadata"].empty()) {
    fmt::print("metadata:\n");
    for (const auto& [key, value] : facts["metadata"].items()) {
      std::string text = word(value);
      if (text.size() > 90) text = text.substr(0, 87) + "...";
      fmt::print("  {}: {}\n", key, text);
    }
  }
  printTensors("tensors", facts["tensors"]);
}

void printPlaces(const char* title, const Facts& places) {
  for (const Facts& place : places) {
    std::string type;
    for (const Facts& extent : place["shape"]) type += jsonText(extent) + "x";
    fmt::print("  {} {}: {}{}\n", title, word(place, "name"), type, word(place, "dtype"));
  }
}

void printBundle(const Facts& facts) {
  fmt::print("bundle {} of @{}: {}\n", word(facts["name"]), word(facts["entry"]),
             facts["damage"] == "" ? "good, every byte verified" : "DAMAGED: " + word(facts["damage"]));
  fmt::print("for {} | {}, {} a call | written by {}\n", word(facts["target"]),
             countOf(facts["kernels"], "kernel"), countOf(facts["dispatches"], "dispatch", "dispatches"),
             word(facts["version"]));
  printPlaces("input", facts["inputs"]);
  printPlaces("result", facts["results"]);
  fmt::print("weights: {}, {}\n", countText(facts["weights"].size(), "tensor"),
             sizeOf(facts["weights_bytes"]));
}

void printCheckpoints(const Facts& facts) {
  const Facts& list = facts["checkpoints"];
  fmt::print("checkpoints: {}\n", list.size());
  for (size_t i = 0; i < std::min(list.size(), kCheckpointRows); ++i) {
    const std::string damage = word(list[i]["damage"]);
    fmt::print("  step {:<9} {}  val loss {}\n", word(list[i]["step"]),
               damage.empty() ? "good" : "DAMAGED: " + damage, word(list[i], "val_loss"));
  }
  if (list.size() > kCheckpointRows)
    fmt::print("  and {} older ones; --json has all\n", list.size() - kCheckpointRows);
  for (const Facts& path : facts["superseded"])
    fmt::print("  {}: of a part that was left when an older checkpoint was resumed\n", word(path));
  if (facts["best"].is_object())
    fmt::print("best: val loss {} at step {}, {}\n", word(facts["best"]["val_loss"]),
               word(facts["best"]["step"]),
               facts["best"]["path"].is_null() ? "not kept" : word(facts["best"]["path"]));
}

void printRun(const Facts& facts) {
  const Facts env = facts.value("env", Facts::object());
  std::string progress = word(facts["step"]);
  if (facts["steps"] != 0) progress += " of " + word(facts["steps"]);
  fmt::print("{}: step {}, {} of training", word(facts["state"]), progress,
             duration(facts["seconds"].get<double>()));
  if (facts["state"] == "running" && !facts["eta_seconds"].is_null())
    fmt::print(", eta {}", duration(facts["eta_seconds"].get<double>()));
  if (facts["owed"] != "") fmt::print(", {}", word(facts["owed"]));
  fmt::print("\nloss {} | val loss {} | {} {}/s\n", word(facts["loss"]), word(facts["val_loss"]),
             facts["items_per_s"].is_number() ? fmt::format("{:.0f}", facts["items_per_s"].get<double>())
                                              : "-",
             env.contains("unit") ? word(env["unit"]) : "items");
  if (env.is_object() && !env.empty()) {
    fmt::print("started {} on {} with seed {}, by {}\n", word(env, "started"), word(env, "device"),
               word(env, "seed"), word(env, "version"));
    fmt::print("  {}\n", word(env, "command"));
  }
  if (facts.contains("module")) {
    const Facts& module = facts["module"];
    fmt::print("module @{}: {}, {}, {}\n", word(module["name"]), countOf(module["params"]["count"], "param"),
               countOf(module["params"]["elements"], "element"), sizeOf(module["params"]["bytes"]));
    for (const Facts& func : module["functions"]) fmt::print("  {}\n", signature(func));
  }
  printCheckpoints(facts);
  if (facts["damage"] != "") fmt::print("DAMAGED: {}\n", word(facts["damage"]));
  if (!facts["resume"].is_null())
    fmt::print("{}: {}\n", facts["state"] == "finished" ? "further" : "resume", word(facts["resume"]));
}

}  // namespace

void printFacts(const Facts& facts) {
  fmt::print("{}\n", word(facts["path"]));
  const std::string kind = word(facts["kind"]);
  if (kind == "run") printRun(facts);
  if (kind == "checkpoint") printCheckpoint(facts);
  if (kind == "tensors") printTensorFile(facts);
  if (kind == "module") printModule(facts);
  if (kind == "bundle") printBundle(facts);
}

}  // namespace tg
