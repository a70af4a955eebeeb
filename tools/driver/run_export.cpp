// SPDX-License-Identifier: Apache-2.0
// tg-run export: writes a directory that runs a trained model without the compiler.
#include <filesystem>

#include <fmt/format.h>

#include "ir/file_io.h"
#include "ir/text.h"
#include "runtime/bundle/bundle.h"
#include "runtime/compile.h"
#include "runtime/data/safetensors.h"
#include "runtime/matrix_units.h"
#include "runtime/train/run_dir.h"
#include "runtime/train/run_files.h"
#include "runtime/vulkan/device.h"
#include "tools/driver/cache_folder.h"
#include "tools/driver/io.h"
#include "tools/driver/listings.h"
#include "tools/driver/run_setup.h"

namespace tg {

namespace {

namespace fs = std::filesystem;

struct ExportFlags {
  std::string source, weights, entry = "predict", out, target, device = "auto", name;
  bool force = false;
};

/// The parameters for a path to a run, a checkpoint or a file.
struct Source {
  fs::path module;
  std::shared_ptr<const Weights> weights;  ///< keeps a checkpoint from being pruned
};

/// Opens the verified checkpoint, or the file, for a path.
Result<void> takeWeights(const fs::path& path, Source& out) {
  ModelFlags flags;
  flags.weights = path.string();
  TG_TRY(out.weights, givenWeights(flags));
  return {};
}

Result<Source> sourceOf(const ExportFlags& flags) {
  Source out;
  fs::path given = flags.source;
  out.module = given;
  if (fs::is_directory(given)) {
    fs::path run =
        isThere(given / "model.tgir") ? given : fs::absolute(given).lexically_normal() / ".." / "..";
    out.module = run.lexically_normal() / "model.tgir";
    if (!isThere(out.module))
      return fail("{} is neither a run nor a checkpoint of one: there is no model.tgir", given.string());
    if (flags.weights.empty()) TG_CHECK(takeWeights(given, out));
    const TrainState* state = out.weights && out.weights->state ? &*out.weights->state : nullptr;
    TG_CHECK(checkRunFiles(run.lexically_normal().string(), state));
  } else if (given.extension() == ".safetensors") {
    return fail("{0} has weights only: give the module too, export model.tgir --weights={0}", given.string());
  }
  if (!flags.weights.empty()) TG_CHECK(takeWeights(flags.weights, out));
  return out;
}

/// The module's parameters, checked as in all verbs, and the states that `forward` still has.
Result<NamedArrays> readWeights(const Weights& weights, const Module& module, const Module& forward) {
  TG_TRY(const TensorSource params, paramsOf(weights, module));
  TG_TRY(NamedArrays values, readAll(params));
  TG_TRY(const TensorSource states, statesOf(weights, forward.all(ItemKind::state), /*all=*/true));
  TG_TRY(NamedArrays more, readAll(states));
  for (auto& state : more) values.push_back(std::move(state));
  return values;
}

struct Export : Verb {
  ExportFlags flags;

  void describe(CLI::App& app) override {
    app.description("Writes a directory that runs a function without the compiler: kernels, weights,\n"
                    "a manifest, and a C++ loader with an example.");
    addValue(app, "SOURCE", " ", flags.source, "a run, a checkpoint, or a module's file with --weights")
        ->required();
    addValue(app, "-o,--out", "DIR", flags.out, "the directory to write")->required();
    addValue(app, "--weights", "PATH", flags.weights,
             "safetensors, a run or a checkpoint (default: the source's)");
    addValue(app, "--entry", "NAME", flags.entry, "the function (default: predict)");
    addValue(app, "--name", "NAME", flags.name,
             "name of the C header and its struct (default: the module's)");
    app.add_flag("--force", flags.force, "replace an existing bundle");
    CLI::Option* target = addValue(app, "--target", "TARGET", flags.target,
                                   "a shipped target or a JSON file instead of a device's limits")
                              ->group("Model and device");
    addValue(app, "--device", "DEVICE", flags.device, "export for this device (default: auto)")
        ->group("Model and device")
        ->excludes(target);
  }

  Result<int> run(CLI::App& app, const Arguments&) override {
    TG_CHECK(withCode(exitUsage, mayWriteBundle(flags.out, flags.force)));
    TG_CHECK(withCode(exitUsage, mayMakeFolder("--out", flags.out)));
    TG_TRY(const Source source, sourceOf(flags));
    if (!source.weights) return noParameters(app, flags.source);
    ModelFlags model;
    model.file = source.module.string();
    TG_TRY(const std::unique_ptr<Module> module, loadModule(app, model));
    std::string entry = flags.entry.starts_with('@') ? flags.entry.substr(1) : flags.entry;
    TG_TRY(std::unique_ptr<Module> forward, forwardOnly(*module, entry));
    TG_TRY(const NamedArrays values, readWeights(*source.weights, *module, *forward));
    TG_TRY(const Target target, chooseTarget(*forward));
    CompileOptions options;
    options.keepCaptures = "";
    options.pipeline = gradPass(*forward->func(entry));
    TG_TRY(const Compiled done, compile(std::move(forward), target, options));
    return write(*done.module, entry, values);
  }

 private:
  Result<Target> chooseTarget(const Module& module) const {
    if (!flags.target.empty()) return takeTarget(flags.target, module);
    TG_TRY(const vulkan::DeviceInfo device, withCode(exitDevice, chosenDevice(flags.device)));
    return keptTarget(module, device, userCacheFolder());
  }

  Result<int> write(const Module& module, const std::string& entry, const NamedArrays& values) {
    std::string name = flags.name.empty() ? module.name : flags.name;
    if (name.empty()) name = "model";
    TG_TRY(const auto files, makeBundle(module, entry, values, name, versionNumber()));
    TG_CHECK(writeBundle(flags.out, files, flags.force));
    size_t bytes = 0;
    for (const auto& [file, content] : files) bytes += content.size();
    fmt::print("wrote {}: @{} with {}, {} bytes in {} files\n", flags.out, entry,
               countText(module.all(ItemKind::binary).size(), "kernel"), bytes, files.size());
    return exitOk;
  }
};

}  // namespace

std::unique_ptr<Verb> makeExport() { return std::make_unique<Export>(); }

}  // namespace tg
