// SPDX-License-Identifier: Apache-2.0
// tg-run verify: compares a device with the interpreter, and finds the kernel that differs.
#include <cstdio>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "codegen/glsl.h"
#include "ir/file_io.h"
#include "ir/json_text.h"
#include "ir/parser.h"
#include "ir/text.h"
#include "runtime/check/kernel_steps.h"
#include "runtime/check/random_point.h"
#include "runtime/check/verify_device.h"
#include "runtime/compile.h"
#include "runtime/data/npy.h"
#include "runtime/interp/kernel_interp.h"
#include "tools/driver/cache_folder.h"
#include "tools/driver/io.h"
#include "tools/driver/run_setup.h"
#include "tools/driver/train_open.h"

namespace tg {

namespace {

std::string describe(const vulkan::DeviceInfo& device, const std::string& function, const KernelStep& step) {
  nlohmann::ordered_json json = {{"device", device.name},
                                 {"driver", device.driver},
                                 {"api", device.api},
                                 {"uuid", device.uuid},
                                 {"function", function},
                                 {"dispatch", step.number},
                                 {"kernel", step.kernel->name},
                                 {"label", step.op->word("label")},
                                 {"source", locString(step.op->loc)}};
  for (const Operand& extent : step.op->keyword("grid")->items) json["grid"].push_back(extent.integer);
  json["workgroup"] = step.kernel->workgroup;
  for (const StepBuffer& buffer : step.buffers)
    if (!buffer.close) json["differs"].push_back({{"buffer", buffer.name}, {"why", buffer.why}});
  json["target"] = nlohmann::ordered_json::parse(targetToJson(device.target));
  return jsonText(json, 2) + "\n";
}

/// Saves everything that is needed to examine a kernel that computes a different result on a device. Creates the folder
/// DIR/FUNCTION-NUMBER-KERNEL and returns it. It has kernel.tgir, kernel.comp, kernel.spv and device.json,
/// before_NAME.npy for each buffer, and device_NAME.npy and interp_NAME.npy for each buffer that is written. An error
/// if something cannot be written.
Result<std::string> dumpStep(const std::string& dir, const std::string& function, const Module& module,
                             const KernelStep& step, const vulkan::DeviceInfo& device) {
  namespace fs = std::filesystem;
  fs::path folder = fs::path(dir) / fmt::format("{}-{}-{}", function, step.number, step.kernel->name);
  TG_CHECK(makeFolder(folder));
  for (const StepBuffer& buffer : step.buffers) {
    auto path = [&](const char* what) {
      return (folder / fmt::format("{}_{}.npy", what, buffer.name)).string();
    };
    TG_CHECK(writeNpy(path("before"), buffer.before));
    if (!buffer.written || !step.findings.empty()) continue;
    TG_CHECK(writeNpy(path("device"), buffer.device));
    TG_CHECK(writeNpy(path("interp"), buffer.exact));
  }
  TG_CHECK(writeFile(folder / "kernel.tgir", print(*step.kernel)));
  TG_TRY(Target target, targetOf(module.attrs));
  TG_TRY(GlslText glsl, printGlsl(*step.kernel, target));
  TG_CHECK(writeFile(folder / "kernel.comp", glsl.text));
  if (const Item* binary = module.find(ItemKind::binary, step.kernel->name))
    TG_CHECK(writeFile(folder / "kernel.spv", std::as_bytes(std::span(binary->code))));
  TG_CHECK(writeFile(folder / "device.json", describe(device, function, step)));
  return folder.string();
}

struct VerifyFlags {
  std::string against = "interp", devices = "auto", entry, dump;
  std::vector<std::string> inputs;
  bool bisect = false;
};

/// Parses "all", or device names separated by commas.
Result<std::vector<std::string>> chosenDevices(const std::string& text) {
  std::vector<std::string> out;
  if (text == "all") {
    TG_TRY(auto devices, vulkan::listDevices());
    for (const vulkan::DeviceInfo& info : devices)
      if (info.unusable.empty()) out.push_back(fmt::format("{}", info.index));
    if (out.empty()) return fail("no Vulkan device can be used");
    return out;
  }
  out = splitText(text, ',');
  if (contains(out, "")) return fail("--devices={}: an empty name", text);
  return out;
}

/// Verifies one module on one device.
class Verification {
 public:
  Verification(const ModelFlags& model, const VerifyFlags& flags, std::shared_ptr<vulkan::Device> device)
      : model_(model), flags_(flags), device_(std::move(device)) {}

  /// exitOk, or exitNumeric if something differs.
  Result<int> run(const Module& source, const std::vector<std::string>& functions) {
    CompileOptions options;
    options.keepGrads = true;
    TG_TRY(options.tuning, tuningOf(model_.tuning, source, &device_->info()));
    TG_TRY(Compiled done, compile(clone(source), targetOn(source, device_, userCacheFolder()), options));
    spirv_ = std::move(done.module);
    source_ = source.stage < Stage::planned ? &source : nullptr;
    if (!source_)
      fmt::print("a module of stage {} has no f64 oracle for whole functions: each kernel is compared\n",
                 tg::name(source.stage));
    TG_TRY(storage_, randomStorage(source, model_.seed));
    int worst = exitOk;
    for (const std::string& function : functions) {
      TG_TRY(const int code, one(*source.func(function)));
      worst = std::max(worst, code);
    }
    return worst;
  }

 private:
  Result<int> one(const Item& func) {
    std::vector<std::string> given;
    for (const std::string& text : flags_.inputs)
      if (func.arg(text.substr(0, text.find('=')))) given.push_back(text);
    TG_TRY(const Inputs inputs, randomInputs(func, given, model_.seed));
    if (!source_) return walk(func.name, inputs, false);
    TG_TRY(const std::vector<ResultCheck> checks,
           fromDevice(compareFunction(*source_, *spirv_, func.name, storage_, inputs, device_)));
    int64_t wrong = 0;
    for (const ResultCheck& check : checks) {
      wrong += !check.close;
      fmt::print("{}  @{} {} {} {}{}\n", check.close ? "ok     " : "DIFFERS", func.name, check.kind,
                 check.name, check.type.str(), check.close ? "" : ": " + check.why);
    }
    fmt::print("@{}: {} of {} with the interpreter on {}\n", func.name,
               static_cast<int64_t>(checks.size()) - wrong,
               countText(checks.size(), "value agrees", "values agree"), device_->info().name);
    if (flags_.bisect || (wrong && !flags_.dump.empty())) {
      TG_TRY(const int code, walk(func.name, inputs, wrong > 0));
      if (code != exitOk) return code;
    }
    return wrong ? exitNumeric : exitOk;
  }

  /// Compares kernel by kernel. `expected`: the whole function is known to differ.
  Result<int> walk(const std::string& function, const Inputs& inputs, bool expected) {
    TG_TRY(auto steps, fromDevice(KernelSteps::create(*spirv_, function, device_)));
    TG_CHECK(withCode(exitDevice, steps.begin(storage_, inputs)));
    KernelStep step;
    while (true) {
      TG_TRY(const bool more, withCode(exitDevice, steps.next(step)));
      if (!more) break;
      if (step.wrong() || !step.findings.empty()) return blame(function, step, steps.dispatches());
    }
    fmt::print("@{}: {} with the interpreter on equal inputs on {}\n", function,
               countText(steps.dispatches(), "kernel agrees", "kernels agree"), device_->info().name);
    if (expected)
      fmt::print(
          "  no kernel is wrong by itself: the order of commands, or how the module was compiled, is\n");
    return exitOk;
  }

  Result<int> blame(const std::string& function, const KernelStep& step, int64_t dispatches) {
    std::string label = step.op->word("label"), place = locString(step.op->loc);
    fmt::print("@{}: kernel @{}{} is the first that {}: dispatch {} of {}{}\n", function, step.kernel->name,
               label.empty() ? "" : " (" + label + ")",
               step.wrong() ? "differs on equal inputs" : "the interpreter found wrong", step.number,
               dispatches, place.empty() ? "" : ", " + place);
    if (!step.findings.empty()) fmt::print("  {}\n", firstOf(step.findings));
    for (const StepBuffer& buffer : step.buffers)
      if (!buffer.close) fmt::print("  %{}, {}\n", buffer.name, buffer.why);
    if (flags_.dump.empty()) return exitNumeric;
    TG_TRY(const std::string folder, dumpStep(flags_.dump, function, *spirv_, step, device_->info()));
    fmt::print("  its inputs{} and its code are in {}\n", step.findings.empty() ? ", both outputs" : "",
               folder);
    return exitNumeric;
  }

  const ModelFlags& model_;
  const VerifyFlags& flags_;
  std::shared_ptr<vulkan::Device> device_;
  std::unique_ptr<Module> spirv_;
  const Module* source_ = nullptr;
  NamedArrays storage_;
};

/// The function of --entry, or all functions.
Result<std::vector<std::string>> functionsOf(const Module& module, const std::string& entry) {
  const std::string wanted = entry.starts_with('@') ? entry.substr(1) : entry;
  const std::vector<Item*> funcs = module.all(ItemKind::func);
  if (funcs.empty()) return failAt(module.loc, "the module has no function");
  std::vector<std::string> out;
  for (const Item* func : funcs)
    if (wanted.empty() || wanted == func->name) out.push_back(func->name);
  if (out.empty()) return fail("there is no function @{}; the module has {}", wanted, namesOf(funcs));
  return out;
}

/// An error unless each --input is an argument of at least one of the functions.
Result<void> checkNames(const Module& module, const std::vector<std::string>& functions,
                        const std::vector<std::string>& inputs) {
  for (const std::string& text : inputs) {
    std::string name = text.substr(0, text.find('='));
    bool found = false;
    for (const std::string& function : functions) found = found || module.func(function)->arg(name);
    if (!found) return fail("--input={}: no function to verify has an input '{}'", text, name);
  }
  return {};
}

struct Verify : Verb {
  ModelFlags model;
  VerifyFlags flags;

  void describe(CLI::App& app) override {
    app.description("Calls each function on the device and in the interpreter, with the same random "
                    "parameters and inputs, and compares the results. Exit 3 if they differ.");
    addValue(app, "FILE", " ", model.file,
             "the module, of any stage, or a run; - or nothing is standard input");
    addValue(app, "--against", "interp", flags.against, "what to compare with")
        ->check(CLI::IsMember({"interp"}));
    addValue(app, "--devices,--device", "LIST", flags.devices,
             "all, or devices such as gpu, cpu, an index: 0,cpu");
    addValue(app, "--entry", "NAME", flags.entry, "the function (default: all)");
    addValue(app, "--input", "NAME=SPEC", flags.inputs, "an input that is not random: x=@x.npy, x=[1,2]");
    addValue(app, "--seed", "N", model.seed, "seed of random parameters and inputs (default: 0)");
    addPassFlags(app, model);
    addValue(app, "--tuning", "FILE", model.tuning,
             "schedules measured on the device; auto is tune's file for it");
    app.add_flag("--bisect", flags.bisect, "run the kernels one by one and name the first that differs");
    addValue(app, "--dump", "DIR", flags.dump, "write that kernel, its inputs and both outputs");
    app.add_flag("--validation", model.validation, "run under the Vulkan validation layer");
  }

  Result<int> run(CLI::App& app, const Arguments&) override {
    TG_TRY(std::unique_ptr<Module> module, loadSource(app, model));
    takeOwnPipeline(*module, model, kTrain);
    TG_CHECK(runFirst(model.pipeline, module, toldOn(model)));
    TG_TRY(const std::vector<std::string> functions, functionsOf(*module, flags.entry));
    TG_CHECK(checkNames(*module, functions, flags.inputs));
    for (const std::string& function : functions)
      warnOfLongLoops(*module, *module->func(function), toldOn(model));
    TG_TRY(const std::vector<std::string> devices,
           withCode(flags.devices == "all" ? exitDevice : exitUsage, chosenDevices(flags.devices)));
    if (!flags.dump.empty()) TG_CHECK(withCode(exitUsage, mayMakeFolder("--dump", flags.dump)));
    // Check all names before the first comparison.
    auto known = vulkan::listDevices();
    for (const std::string& select : devices)
      if (known) TG_CHECK(withCode(exitDevice, vulkan::selectDevice(*known, select)));
    int worst = exitOk;
    for (const std::string& select : devices) {
      TG_TRY(const auto device,
             withCode(exitDevice, vulkan::Device::open({select, model.validation, false, {}})));
      TG_TRY(const int code, Verification(model, flags, device).run(*module, functions));
      worst = std::max(worst, code);
    }
    return worst;
  }
};

}  // namespace

std::unique_ptr<Verb> makeVerify() { return std::make_unique<Verify>(); }

}  // namespace tg
