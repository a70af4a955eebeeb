// SPDX-License-Identifier: Apache-2.0
// tg-run check-grad: compares gradients with central differences, all in the f64 interpreter.
#include <cmath>
#include <cstdio>

#include <fmt/format.h>

#include "ir/builder.h"
#include "ir/text.h"
#include "passes/lookup.h"
#include "passes/pass.h"
#include "runtime/check/random_point.h"
#include "runtime/check/verify_device.h"
#include "runtime/compile.h"
#include "runtime/interp_runner.h"
#include "tools/driver/cache_folder.h"
#include "tools/driver/run_setup.h"

namespace tg {

namespace {

struct CheckFlags {
  std::string function = "train", wrt = "*", device;
  std::vector<std::string> inputs;
  double eps = 1e-6, rtol = 1e-4, atol = 1e-8;
  int samples = 1;
};

/// The results of tg.stop_gradient in a function.
std::vector<Value*> stopped(const Item& func) {
  std::vector<Value*> out;
  for (const Op* op : func.body.ops)
    if (op->code == Opcode::stop_gradient && isFloat(op->result()->type.dtype)) out.push_back(op->result());
  return out;
}

std::string heldName(size_t index) { return fmt::format("held.{}", index); }

Result<Interpreter> wideInterpreter(const Module& module) {
  InterpOptions options;
  options.mode = InterpMode::wide;
  return Interpreter::create(module, options);
}

/// A function at one point: its inputs and params. Computes the loss when one param is changed. Gradients do not pass
/// tg.stop_gradient, so its results keep the values of the point.
class Check {
 public:
  Check(const Module& module, const CheckFlags& flags, uint64_t seed)
      : module_(module), flags_(flags), seed_(seed) {}

  Result<void> setUp();
  /// Compares the derivative along a random direction of a param. Returns "" if they agree.
  Result<std::string> compare(const Item& param, int sample);
  /// Compares a device's gradients at the same point with those of the interpreter, by param.
  Result<std::map<std::string, ResultCheck>>
  compareDevice(const std::shared_ptr<vulkan::Device>& device) const;
  const std::map<std::string, NdArray>& grads() const { return grads_; }

 private:
  Result<void> setStorage();
  Result<void> setInputs();
  Result<void> holdStopped();
  Result<double> lossAt(const Item& param, const NdArray& direction, double step);

  const Module& module_;
  std::unique_ptr<Module> held_;            ///< in which results of tg.stop_gradient are arguments
  std::optional<Interpreter> interpreter_;  ///< of held_
  const CheckFlags& flags_;
  uint64_t seed_;
  NamedArrays given_;
  Inputs givenInputs_;
  std::map<std::string, NdArray> storage_, inputs_, grads_;
};

bool hasLoss(const Item& func) {
  if (func.results.empty()) return false;
  const Type& type = func.results.front().type;
  return isFloat(type.dtype) && type.elements() == 1;
}

Result<void> Check::setUp() {
  // Gradients that are written by hand may belong to a function without a loss.
  if (const Item* func = module_.func(flags_.function); func && !hasLoss(*func))
    return failAt(func->loc, "@{}: its first result is differentiated, so it must be one float number",
                  func->name);
  for (const Op* op : module_.func(flags_.function)->body.ops)
    if (op->code == Opcode::fused &&
        anyInside(*op, [](const Op& in) { return in.code == Opcode::stop_gradient; }))
      return failAt(
          op->loc, "a kernel has a tg.stop_gradient, which differences would pass; check the module of stage "
                   "tensor");
  TG_CHECK(setStorage());
  TG_CHECK(setInputs());
  return holdStopped();
}

/// Computes gradients and what tg.stop_gradient gives at the point, which become inputs.
Result<void> Check::holdStopped() {
  const std::unique_ptr<Module> probe = clone(module_);
  Item& func = *probe->func(flags_.function);
  Builder builder(probe.get(), &func);
  builder.setBefore(func.body.terminator());
  const std::vector<Value*> values = stopped(func);
  for (size_t i = 0; i < values.size(); ++i)
    builder.create(Opcode::capture, {Operand::of(values[i])}, {{"name", Attr::string(heldName(i))}});
  TG_TRY(Interpreter probing, wideInterpreter(*probe));
  for (const auto& [name, value] : storage_) TG_CHECK(probing.setStorage(name, value));
  TG_TRY(RunResult first, probing.run(flags_.function, inputs_));
  grads_ = std::move(first.paramGrads);

  held_ = clone(module_);
  Item& held = *held_->func(flags_.function);
  Builder naming(held_.get(), &held);
  const std::vector<Value*> replaced = stopped(held);
  for (size_t i = 0; i < replaced.size(); ++i) {
    Value* arg = held.body.addArg(replaced[i]->type, naming.names().unique("held"));
    replaced[i]->uses.replaceAll(arg);
    inputs_[arg->name] = std::move(first.captures.at(heldName(i)));
  }
  TG_TRY(interpreter_, wideInterpreter(*held_));
  return {};
}

Result<void> Check::setStorage() {
  TG_TRY(given_, randomStorage(module_, seed_));
  for (const auto& [name, value] : given_) storage_[name] = toNdArray(value);
  return {};
}

Result<void> Check::setInputs() {
  TG_TRY(givenInputs_, randomInputs(*module_.func(flags_.function), flags_.inputs, seed_));
  for (const auto& [name, value] : givenInputs_) inputs_[name] = toNdArray(value);
  return {};
}

Result<std::map<std::string, ResultCheck>>
Check::compareDevice(const std::shared_ptr<vulkan::Device>& device) const {
  CompileOptions options;
  options.keepGrads = true;
  TG_TRY(Compiled done, compile(clone(module_), targetOn(module_, device, userCacheFolder()), options));
  TG_TRY(auto checks, compareFunction(module_, *done.module, flags_.function, given_, givenInputs_, device));
  std::map<std::string, ResultCheck> out;
  for (ResultCheck& check : checks)
    if (check.kind == "gradient") out.emplace(check.name, check);
  return out;
}

Result<double> Check::lossAt(const Item& param, const NdArray& direction, double step) {
  for (const auto& [name, value] : storage_) {
    NdArray moved = value;
    if (name == param.name)
      for (size_t i = 0; i < moved.data.size(); ++i) moved.data[i] += step * direction.data[i];
    TG_CHECK(interpreter_->setStorage(name, moved));
  }
  TG_TRY(RunResult out, interpreter_->run(flags_.function, inputs_));
  return unsignedNan(out.results.front().second.data[0]);
}

Result<std::string> Check::compare(const Item& param, int sample) {
  NdArray direction = randomNormal(param.type, seed_ + 1, static_cast<uint32_t>(sample));
  double length = 0, analytic = 0, scale = 0;
  for (double x : direction.data) length += x * x;
  for (double& x : direction.data) x /= std::sqrt(length);
  const NdArray& grad = grads_.at(param.name);
  for (size_t i = 0; i < grad.data.size(); ++i) {
    analytic += grad.data[i] * direction.data[i];
    scale += std::fabs(grad.data[i] * direction.data[i]);
  }
  TG_TRY(double above, lossAt(param, direction, flags_.eps));
  TG_TRY(double below, lossAt(param, direction, -flags_.eps));
  if (!std::isfinite(above) || !std::isfinite(below))
    return fmt::format("@{}: the loss is {} at {} from the parameter along direction {}: no differences\n",
                       param.name, std::isfinite(above) ? below : above,
                       std::isfinite(above) ? -flags_.eps : flags_.eps, sample);
  double numeric = (above - below) / (2 * flags_.eps);
  // Rounding errors of the losses in f64, amplified by the division.
  double noise = 1e-15 * (std::fabs(above) + std::fabs(below)) / flags_.eps;
  double apart = std::fabs(analytic - numeric);
  if (apart <= flags_.atol + noise + flags_.rtol * std::max(scale, std::fabs(numeric)) &&
      std::isfinite(analytic) && std::isfinite(numeric))
    return std::string();
  return fmt::format("@{}: the gradient gives {:.9g} along direction {}, differences give {:.9g}\n",
                     param.name, unsignedNan(analytic), sample, unsignedNan(numeric));
}

Result<std::unique_ptr<Module>> withGradients(std::unique_ptr<Module> module, const ModelFlags& model,
                                              const CheckFlags& flags) {
  std::string pipeline = model.pipeline;
  const Item* func = module->func(flags.function);
  if (!func) return fail("{} has no function @{}", model.file, flags.function);
  const bool has = gradPass(*func).empty() && hasGradients(*func);
  if (pipeline.empty() && !has) pipeline = fmt::format("append-grad{{func={}}}", flags.function);
  if (pipeline.empty()) return module;
  TG_CHECK(runFirst(pipeline, module, toldOn(model)));
  return module;
}

struct CheckGrad : Verb {
  ModelFlags model;
  CheckFlags flags;

  void describe(CLI::App& app) override {
    app.description("Compares the gradient of each parameter with central differences along random "
                    "directions, in f64. Parameters and inputs are random. --device also compares a device's "
                    "gradients with those in f64. Exit 3 if one is wrong.");
    addValue(app, "FILE", " ", model.file, "the module, of stage tensor or fused");
    addValue(app, "--func", "NAME", flags.function,
             "the function whose first result is differentiated (default: train)");
    addValue(app, "--wrt", "PATTERN", flags.wrt, "parameters to check, by name pattern (default: *)");
    addValue(app, "--input", "NAME=SPEC", flags.inputs, "an input that is not random: x=@x.npy, x=[1,2]");
    addPassFlags(app, model, "passes instead of append-grad, for a module without gradients");
    addNumber(app, "--samples", flags.samples, "directions for each parameter", atLeast(1));
    addNumber(app, "--eps", flags.eps, "step size of the differences", between(1e-10, 1));
    addValue(app, "--device", "DEVICE", flags.device,
             "also check the gradients of this device: auto, cpu, an index");
    addNumber(app, "--rtol", flags.rtol, "relative tolerance", atLeast(0));
    app.add_option("--seed", model.seed, "seed of directions, parameters and inputs")->capture_default_str();
  }
  Result<int> run(CLI::App& app, const Arguments&) override {
    TG_TRY(std::unique_ptr<Module> loaded, loadModule(app, model));
    std::shared_ptr<vulkan::Device> device;
    if (!flags.device.empty()) {
      TG_TRY(device, withCode(exitDevice, vulkan::Device::open({flags.device, false, false, {}})));
    }
    TG_TRY(const std::unique_ptr<Module> module, withGradients(std::move(loaded), model, flags));
    warnOfLongLoops(*module, *module->func(flags.function), toldOn(model));
    Check check(*module, flags, model.seed);
    TG_CHECK(check.setUp());

    int checked = 0, wrong = 0;
    for (const Item* param : checkedParams(*module, check)) {
      ++checked;
      std::string finding;
      for (int sample = 0; sample < flags.samples && finding.empty(); ++sample) {
        TG_TRY(finding, check.compare(*param, sample));
      }
      wrong += !finding.empty();
      fmt::print("{}", finding);
    }
    if (!checked)
      return fail(
          app.count("--wrt")
              ? fmt::format("--wrt={} names no parameter with a gradient", flags.wrt)
              : fmt::format("@{} has gradients of no parameter{}", flags.function,
                            model.pipeline.empty() ? "" : " after --pipeline=" + shellWord(model.pipeline)));
    fmt::print("{} of {} with central differences\n", checked - wrong,
               countText(checked, "parameter agrees", "parameters agree"));
    TG_TRY(const bool agrees, device ? onDevice(*module, check, device) : true);
    return agrees && !wrong ? exitOk : exitNumeric;
  }

 private:
  std::vector<const Item*> checkedParams(const Module& module, const Check& check) const {
    std::vector<const Item*> out;
    for (const Item* param : module.all(ItemKind::param))
      if (globMatch(flags.wrt, param->name) && check.grads().contains(param->name)) out.push_back(param);
    return out;
  }

  /// Compares the device's gradients. Whether all agree.
  Result<bool> onDevice(const Module& module, const Check& check,
                        const std::shared_ptr<vulkan::Device>& device) const {
    const std::string& name = device->info().name;
    TG_TRY(const auto compared, fromDevice(check.compareDevice(device)));
    int checked = 0, wrong = 0;
    for (const Item* param : checkedParams(module, check)) {
      auto found = compared.find(param->name);
      if (found == compared.end()) return fail("the compiled module keeps no gradient of @{}", param->name);
      ++checked;
      if (found->second.close) continue;
      ++wrong;
      fmt::print("@{}: the gradient of {} is wrong: {}\n", param->name, name, found->second.why);
    }
    fmt::print("{} of {} gradients of {} agree with those in f64\n", checked - wrong, checked, name);
    return wrong == 0;
  }
};

}  // namespace

std::unique_ptr<Verb> makeCheckGrad() { return std::make_unique<CheckGrad>(); }

}  // namespace tg
