// tg-run check-grad: gradients against central differences, all in the f64 interpreter.
#include <cmath>
#include <cstdio>

#include <fmt/format.h>

#include "ir/philox.h"
#include "passes/pass.h"
#include "runtime/data/init.h"
#include "runtime/data/spec.h"
#include "runtime/finish.h"
#include "runtime/interp_runner.h"
#include "runtime/train/feed.h"
#include "tools/driver/run_setup.h"

namespace tg {

namespace {

struct CheckFlags {
  std::string function = "train", wrt = "*";
  std::vector<std::string> inputs;
  double eps = 1e-6, rtol = 1e-4, atol = 1e-8;
  int samples = 1;
};

/// A function at one point: its inputs and params, and the loss as a function of one param.
class Check {
 public:
  Check(const Module& module, Interpreter interpreter, const CheckFlags& flags, uint64_t seed)
      : module_(module), interpreter_(std::move(interpreter)), flags_(flags), seed_(seed) {}

  Result<void> setUp();
  /// Compares the derivative along one random direction of a param. "" when they agree.
  Result<std::string> compare(const Item& param, int sample);
  const std::map<std::string, NdArray>& grads() const { return grads_; }

 private:
  Result<void> setParams();
  Result<void> setInputs();
  Result<double> lossAt(const Item& param, const NdArray& direction, double step);

  const Module& module_;
  Interpreter interpreter_;
  const CheckFlags& flags_;
  uint64_t seed_;
  std::map<std::string, NdArray> params_, states_, inputs_, grads_;
};

NdArray randomLike(const Type& type, uint64_t seed, uint32_t salt) {
  NdArray out = NdArray::zeros(type);
  for (size_t i = 0; i < out.data.size(); ++i) {
    auto words = philox({lowWord(i), highWord(i), salt, 0x67726164u}, {lowWord(seed), highWord(seed)});
    out.data[i] = philoxNormal(words[0], words[1]);
  }
  return out;
}

Result<void> Check::setUp() {
  TG_CHECK(setParams());
  TG_CHECK(setInputs());
  TG_TRY(RunResult first, interpreter_.run(flags_.function, inputs_));
  grads_ = std::move(first.paramGrads);
  return {};
}

// Random values for every param: zeros and ones, as biases and gains start, would hide a wrong gradient.
Result<void> Check::setParams() {
  uint32_t salt = 1;
  for (const Item* param : module_.all(ItemKind::param)) {
    NdArray value = randomLike(param->type, seed_, salt++);
    // Of the size a trained matrix has, so that activations neither vanish nor saturate.
    double scale =
        param->type.rank() < 2
            ? 0.3
            : 1 / std::sqrt(static_cast<double>(param->type.elements() / param->type.shape.back()));
    for (double& x : value.data) x *= scale;
    TG_CHECK(interpreter_.setStorage(param->name, value));
    params_[param->name] = std::move(value);
  }
  for (const Item* state : module_.all(ItemKind::state)) {
    TG_TRY(states_[state->name], interpreter_.storage(state->name));
  }
  return {};
}

Result<void> Check::setInputs() {
  const Item& func = *module_.func(flags_.function);
  std::map<std::string, InputSpec> given;
  for (const std::string& text : flags_.inputs) {
    TG_TRY(auto spec, parseInputSpec(text));
    if (!func.arg(spec.first)) return fail(fmt::format("@{} has no input '{}'", func.name, spec.first));
    given.insert_or_assign(spec.first, spec.second);
  }
  uint64_t seed = seed_;
  for (const auto& arg : func.body.args) {
    InputSpec spec;
    spec.kind = InputSpec::Kind::rand;
    spec.seed = ++seed;
    if (int64_t limit = idLimit(func, arg.get())) spec.below = static_cast<int32_t>(limit);
    if (auto found = given.find(arg->name); found != given.end()) spec = found->second;
    TG_TRY(HostArray value, load(spec, arg->type, arg->name));
    inputs_[arg->name] = toNdArray(value);
  }
  return {};
}

Result<double> Check::lossAt(const Item& param, const NdArray& direction, double step) {
  for (const auto& [name, value] : states_) TG_CHECK(interpreter_.setStorage(name, value));
  for (const auto& [name, value] : params_) {
    NdArray moved = value;
    if (name == param.name)
      for (size_t i = 0; i < moved.data.size(); ++i) moved.data[i] += step * direction.data[i];
    TG_CHECK(interpreter_.setStorage(name, moved));
  }
  TG_TRY(RunResult out, interpreter_.run(flags_.function, inputs_));
  return out.results.front().second.data[0];
}

Result<std::string> Check::compare(const Item& param, int sample) {
  NdArray direction = randomLike(param.type, seed_ + 1, static_cast<uint32_t>(sample));
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
  double numeric = (above - below) / (2 * flags_.eps);
  // Rounding of the losses in f64, amplified by the division.
  double noise = 1e-15 * (std::fabs(above) + std::fabs(below)) / flags_.eps;
  double apart = std::fabs(analytic - numeric);
  if (apart <= flags_.atol + noise + flags_.rtol * std::max(scale, std::fabs(numeric)) &&
      std::isfinite(analytic))
    return std::string();
  return fmt::format("@{}: the gradient gives {:.9g} along direction {}, differences give {:.9g}\n",
                     param.name, analytic, sample, numeric);
}

Result<std::unique_ptr<Module>> withGradients(std::unique_ptr<Module> module, const ModelFlags& model,
                                              const CheckFlags& flags) {
  std::string pipeline = model.pipeline;
  const Item* func = module->func(flags.function);
  if (!func) return fail(fmt::format("{} has no function @{}", model.file, flags.function));
  bool has = std::any_of(func->body.ops.begin(), func->body.ops.end(),
                         [](const auto& op) { return op->code == Opcode::param_grad; });
  if (pipeline.empty() && !has) pipeline = fmt::format("append-grad{{func={}}}", flags.function);
  if (pipeline.empty()) return module;
  TG_TRY(Finished done, runPasses(std::move(module), pipeline));
  return std::move(done.module);
}

struct CheckGrad : Verb {
  ModelFlags model;
  CheckFlags flags;

  void describe(CLI::App& app) override {
    app.description(
        "Compares the gradient of every parameter with central differences along random directions, in f64. "
        "Parameters and inputs are random. Exit 3 when one is wrong.");
    app.add_option("FILE", model.file, "the module, of stage tensor or fused")->option_text(" ");
    app.add_option("--func", flags.function, "the function whose first result is differentiated")
        ->capture_default_str();
    app.add_option("--wrt", flags.wrt, "parameters to check, by name pattern")->capture_default_str();
    app.add_option("--input", flags.inputs, "instead of a random one: x=@x.npy, x=[1,2]")
        ->option_text("NAME=SPEC");
    app.add_option("--pipeline", model.pipeline, "instead of append-grad, on a module without gradients");
    app.add_option("--samples", flags.samples, "directions for each parameter")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    app.add_option("--eps", flags.eps, "step of the differences")->capture_default_str();
    app.add_option("--rtol", flags.rtol, "relative tolerance")->capture_default_str();
    app.add_option("--seed", model.seed, "of directions, parameters and inputs")->capture_default_str();
  }
  int run(CLI::App& app, const Arguments&) override {
    std::unique_ptr<Module> loaded;
    if (int code = loadModule(app, model, loaded)) return code;
    auto module = withGradients(std::move(loaded), model, flags);
    if (!module) return report(app, exitInput, module.error());
    InterpOptions options;
    options.mode = InterpMode::wide;
    auto interpreter = Interpreter::create(**module, options);
    if (!interpreter) return report(app, exitInput, interpreter.error());
    Check check(**module, std::move(*interpreter), flags, model.seed);
    if (auto ready = check.setUp(); !ready) return report(app, exitInput, ready.error());

    int checked = 0, wrong = 0;
    for (const Item* param : (*module)->all(ItemKind::param)) {
      if (!globMatch(flags.wrt, param->name) || !check.grads().contains(param->name)) continue;
      ++checked;
      std::string finding;
      for (int sample = 0; sample < flags.samples && finding.empty(); ++sample) {
        auto compared = check.compare(*param, sample);
        if (!compared) return report(app, exitInput, compared.error());
        finding = *compared;
      }
      wrong += !finding.empty();
      fmt::print("{}", finding);
    }
    if (!checked)
      return report(app, exitInput, fmt::format("--wrt={} names no parameter with a gradient", flags.wrt));
    fmt::print("{} of {} parameters agree with central differences\n", checked - wrong, checked);
    return wrong ? exitNumeric : exitOk;
  }
};

}  // namespace

std::unique_ptr<Verb> makeCheckGrad() { return std::make_unique<CheckGrad>(); }

}  // namespace tg
