// SPDX-License-Identifier: Apache-2.0
// tg-run doctor: checks whether a module fits a device, and names the limits that it exceeds.
#include <cstdio>
#include <optional>

#include <fmt/format.h>

#include "ir/json_text.h"
#include "ir/text.h"
#include "runtime/check/fit.h"
#include "runtime/compile.h"
#include "runtime/matrix_units.h"
#include "runtime/vulkan/device.h"
#include "tools/driver/cache_folder.h"
#include "tools/driver/cli.h"
#include "tools/driver/io.h"
#include "tools/driver/run_setup.h"
#include "tools/driver/train_open.h"

namespace tg {

namespace {

/// The device or target that a module is checked against.
struct Candidate {
  Target target;
  DeviceMemory memory;
  std::string name;
  std::optional<vulkan::DeviceInfo> device = {};
};

/// Reads the JSON of a target, or of an entry of `tg-run devices --json`, which also has the memory.
Result<Candidate> candidateOfJson(const std::string& text, const std::string& file) {
  Json json = parseJson<Json>(text);
  if (json.is_array() && json.size() == 1) json = Json(json[0]);
  if (json.is_array())
    return fail("{}: {} devices where one is wanted; keep one of the list", file, json.size());
  Candidate out;
  if (!json.is_object() || !json.contains("target")) {
    TG_TRY(out.target, targetFromJson(text, file));
    out.name = out.target.name;
    return out;
  }
  TG_TRY(out.target, targetFromJson(jsonText(json["target"]), file));
  auto bytes = [&](const char* key) -> Result<int64_t> {
    if (!json.contains(key)) return int64_t(0);
    if (json[key].is_number_integer() && json[key].get<int64_t>() > 0) return json[key].get<int64_t>();
    return fail("{}: {} is not a positive integer", file, key);
  };
  TG_TRY(out.memory.heap, bytes("heap_bytes"));
  TG_TRY(out.memory.allocation, bytes("max_allocation_bytes"));
  out.name = json.contains("name") && json["name"].is_string() ? json["name"].get<std::string>() : file;
  return out;
}

Result<Candidate> candidateOfDevice(const std::string& select) {
  TG_TRY(const vulkan::DeviceInfo info, chosenDevice(select));
  return Candidate{info.target, {info.heapBytes, info.maxAllocationBytes}, info.name, info};
}

std::string amount(const Need& need, int64_t value) {
  if (!need.atMost) return value == kAnyAlignment ? "any" : fmt::format("{}", value);
  for (const FeatureRow& feature : kFeatures)
    if (need.limit == feature.name) return value ? "yes" : "no";
  if (need.limit == "heap_bytes" || need.limit == "max_allocation_bytes")
    return fmt::format("{} ({:.1f} MiB)", value, static_cast<double>(value) / (1 << 20));
  return fmt::format("{}", value);
}

void print(const Need& need) {
  std::string place = locString(need.loc);
  std::string where = need.where + (place.empty() ? "" : ", " + place);
  fmt::print("  {} {:<20} needs {}, there is {}{}\n", need.fits() ? "  " : "!!", need.limit,
             amount(need, need.needed), need.checked ? amount(need, need.available) : "no figure for it",
             where.empty() ? "" : "; " + where);
}

void print(const Fit& fit, const Candidate& candidate) {
  for (const FunctionFit& function : fit.functions) {
    fmt::print("@{}: {}; {}\n", function.function, function.fits() ? "fits" : "does not fit",
               countText(function.dispatches, "dispatch", "dispatches"));
    for (const Need& need : function.needs) print(need);
  }
  fmt::print("memory, of all functions together:\n");
  for (const Need& need : fit.memory) print(need);
  if (!fit.compiledFor.empty()) fmt::print("!! {}; compile it again for this target\n", fit.compiledFor);
  fmt::print("{}: {}\n", candidate.name, fit.fits() ? "fits" : "does not fit");
}

struct Doctor : Verb {
  ModelFlags model;
  std::string target, device, tuning;

  void describe(CLI::App& app) override {
    app.description(
        "Prints for each function whether it fits a device: each limit, what the function needs and what the "
        "device gives. A module of an earlier stage is compiled for the target first. Exit 1 if it does not "
        "fit.");
    addValue(app, "FILE", " ", model.file,
             "the module, of any stage, or a run; - or nothing is standard input");
    addPassFlags(app, model);
    CLI::Option* wanted = addValue(app, "--target", "TARGET", target,
                                   "a shipped target, a JSON file of one, or a device from devices --json")
                              ->group("Target");
    addValue(app, "--device", "DEVICE", device,
             "auto (default), gpu, cpu, an index, a UUID, a part of the name")
        ->group("Target")
        ->excludes(wanted);
    addValue(app, "--tuning", "FILE", tuning, "schedules measured on the device; auto is tune's file for it")
        ->group("Target");
  }

  Result<Candidate> candidate() const {
    if (target.empty()) return withCode(exitDevice, candidateOfDevice(device.empty() ? "auto" : device));
    if (!isTargetFile(target)) {
      TG_TRY(Target named, readTarget(target));
      return Candidate{named, {}, named.name, {}};
    }
    TG_TRY(std::string json, readInput(target));
    return candidateOfJson(json, target);
  }

  Result<int> run(CLI::App& app, const Arguments&) override {
    TG_TRY(Candidate against, candidate());
    TG_TRY(std::unique_ptr<Module> module, loadSource(app, model));
    takeOwnPipeline(*module, model, kTrain);
    TG_CHECK(runFirst(model.pipeline, module, toldOn(model)));
    CompileOptions options;
    TG_TRY(options.tuning, tuningOf(tuning, *module, against.device ? &*against.device : nullptr));
    if (against.device) against.target = keptTarget(*module, *against.device, userCacheFolder());
    auto done = compile(std::move(module), against.target, options);
    if (!done) {
      const int code = report(app, done.error());
      fmt::print("{}: does not fit: it cannot be compiled for it\n", against.name);
      return code;
    }
    TG_TRY(const auto fit, fitOf(*done->module, against.target, against.memory,
                                 against.device ? std::optional(against.device->limits) : std::nullopt));
    print(fit, against);
    if (const std::string line = against.device ? matrixLine(*against.device) : ""; !line.empty())
      fmt::print("{}\n", line);
    return fit.fits() ? exitOk : exitInput;
  }
};

}  // namespace

std::unique_ptr<Verb> makeDoctor() { return std::make_unique<Doctor>(); }

}  // namespace tg
