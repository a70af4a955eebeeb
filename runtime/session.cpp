#include "runtime/session.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "runtime/session_program.h"

namespace tg {

namespace {

/// The function that updates from accumulated gradients: the one that says after how many steps. Null
/// where each step updates.
const Item* applyOf(const Module& module) {
  for (const Item* func : module.all(ItemKind::func))
    if (find(func->attrs, "every")) return func;
  return nullptr;
}

/// Steps for each update.
int64_t everyOf(const Module& module) {
  const Item* apply = applyOf(module);
  return apply ? find(apply->attrs, "every")->integer : 1;
}

Captures toCaptures(const std::string& function, const SessionProgram::Callable& callable, NamedArrays kept) {
  std::erase_if(kept, [&](const auto& capture) {
    return std::find(callable.read.begin(), callable.read.end(), capture.first) == callable.read.end();
  });
  return {function, callable.captures, std::move(kept)};
}

}  // namespace

const HostArray* CallOutputs::result(std::string_view name) const {
  for (const auto& [own, array] : results)
    if (own == name) return &array;
  return nullptr;
}

Session::Session(SessionOptions options) : options_(std::move(options)) {}

Session::~Session() { close(); }

Result<std::unique_ptr<Session>> Session::create(std::unique_ptr<Module> module, SessionOptions options) {
  std::unique_ptr<Session> session(new Session(std::move(options)));
  TG_CHECK(session->openDevice());
  TG_TRY(session->program_, SessionProgram::create(std::move(module), session->options_, session->device_));
  session->publish();
  TG_CHECK(session->reset());
  return session;
}

Result<void> Session::openDevice() {
  device_ = options_.device.open;
  if (device_ || options_.device.name == "interp") return {};
  TG_TRY(device_, vulkan::Device::open({options_.device.name, options_.validation, false, {}}));
  return {};
}

void Session::publish() {
  std::lock_guard lock(viewMutex_);
  info_ = program_->info();
  module_ = program_->module();
}

Result<double> Session::rateAt(const Value& argument, int64_t step) const {
  if (rate_) return rate_.at(step);
  const Attr* schedule = find(argument.attrs, "schedule");
  if (!schedule)
    return failAt(argument.loc,
                  fmt::format("%{} has no schedule: give it one, or call setLearningRate", argument.name));
  auto rate = learningRate(*schedule, step);
  if (!rate) return failAt(argument.loc, rate.error().message());
  return *rate;
}

// `step` counts from 1. Schedules see the steps of the optimizer, random ops every one.
Result<void> Session::fillHostScalars(const Item& func, int64_t step, Inputs& inputs, double* rate) const {
  int64_t every = everyOf(*program_->module());
  for (const auto& arg : func.body.args) {
    const Attr* host = find(arg->attrs, "host");
    if (!host) continue;
    if (auto given = inputs.find(arg->name); given != inputs.end()) {
      if (host->text == "lr" && given->second.elements() == 1) *rate = given->second.at(0);
      continue;
    }
    HostArray value = HostArray::zeros(arg->type);
    if (host->text == "loss_scale") value.set(0, 1);
    if (host->text == "rng") {
      value.i32()[0] = static_cast<int32_t>(static_cast<uint32_t>(options_.seed));
      value.i32()[1] = static_cast<int32_t>(step - 1);
    }
    if (host->text == "lr") {
      TG_TRY(*rate, rateAt(*arg, (step - 1) / every + 1));
      value.set(0, *rate);
    }
    inputs.emplace(arg->name, std::move(value));
  }
  return {};
}

Result<void> Session::checkLoss() const {
  TG_TRY(const Item* func, program_->function(options_.trainFunction));
  if (func->results.empty())
    return failAt(func->loc, fmt::format("@{} has no result that could be its loss; call it with run",
                                         options_.trainFunction));
  const NamedType& first = func->results.front();
  if (first.type == Type::tensor(DType::f32, {})) return {};
  return failAt(func->loc,
                fmt::format("step wants a loss, a rank-0 f32, as the first result of @{}, which is "
                            "'{}' : {}; call it with run",
                            options_.trainFunction, first.name, first.type.str()));
}

Result<StepResult> Session::call(const std::string& function, Inputs inputs,
                                 const std::vector<std::string>& captures) {
  StepResult out;
  out.step = steps_ + 1;
  TG_TRY(SessionProgram::Callable callable, program_->callable(function, inputs, captures));
  TG_CHECK(fillHostScalars(*callable.func, out.step, inputs, &out.learningRate));
  TG_TRY(RunOutputs outputs, program_->runner().run(callable.key, inputs, !captures.empty()));
  out.results = std::move(outputs.results);
  out.captures = toCaptures(function, callable, std::move(outputs.captures));
  if (function != options_.trainFunction) return out;
  steps_ = out.step;
  lastStep_ = callable.key;
  program_->pin(callable.key);
  TG_CHECK(apply(out));
  return out;
}

/// After each N-th step of accumulated gradients, the update.
Result<void> Session::apply(StepResult& out) {
  const Item* func = applyOf(*program_->module());
  if (!func) return {};
  out.applied = out.step % everyOf(*program_->module()) == 0;
  if (!out.applied) return {};
  Inputs scalars;
  TG_CHECK(fillHostScalars(*func, out.step, scalars, &out.learningRate));
  TG_TRY(RunOutputs applied, program_->runner().run(func->name, scalars, false));
  for (auto& result : applied.results) out.results.push_back(std::move(result));
  return {};
}

CallResult<StepResult> Session::step(const Inputs& inputs, const std::vector<std::string>& captures) {
  return serve<StepResult>([&]() -> Result<StepResult> {
    TG_CHECK(checkLoss());
    TG_TRY(StepResult out, call(options_.trainFunction, inputs, captures));
    out.loss = out.results.front().second.at(0);
    return out;
  });
}

CallResult<CallOutputs> Session::run(const std::string& function, const Inputs& inputs,
                                     const std::vector<std::string>& captures) {
  return serve<CallOutputs>([&]() -> Result<CallOutputs> {
    TG_TRY(StepResult out, call(function, inputs, captures));
    return CallOutputs{std::move(out.results), std::move(out.captures)};
  });
}

CallResult<void> Session::attach(std::unique_ptr<Module> forward) {
  return serve<void>([&]() -> Result<void> {
    std::unique_ptr<Module> given = clone(*forward);
    TG_CHECK(program_->attach(std::move(forward)));
    attached_.push_back(std::move(given));
    return {};
  });
}

Result<void> Session::replace(std::unique_ptr<Module> module, const ReplaceOptions& replacing) {
  SessionOptions options = options_;
  options.seed = replacing.seed.value_or(options.seed);
  options.trainPipeline = replacing.optimizer.value_or(options.trainPipeline);
  TG_TRY(auto program, SessionProgram::create(std::move(module), options, device_));
  std::string before = program_->optimizer(), after = program->optimizer();
  if (before != after && !before.empty() && !after.empty())
    return fail(
        fmt::format("replaceModule: the session trains with {}, the new module with {}: make a session "
                    "of its own for that",
                    before, after));
  for (const auto& forward : attached_) TG_CHECK(program->attach(clone(*forward)));
  TG_CHECK(initialise(*program, ItemKind::param, options.seed));
  TG_CHECK(initialise(*program, ItemKind::state, options.seed));
  options_ = std::move(options);
  program_ = std::move(program);
  rate_.clear();
  lastStep_.clear();
  steps_ = 0;
  publish();
  return {};
}

CallResult<void> Session::replaceModule(std::unique_ptr<Module> module, ReplaceOptions options) {
  auto turn = queue_.enterInstead("the session was given another module before the call's turn");
  if (!turn) return CallResult<void>::aborted(turn.takeError());
  return replace(std::move(module), options);
}

void Session::close() {
  queue_.close("the session is closed");
  std::lock_guard lock(viewMutex_);
  program_.reset();
  module_.reset();
}

template <class Schedule>
CallResult<void> Session::replaceRate(Schedule schedule) {
  return serve<void>([&]() -> Result<void> {
    if (!program_->hasHostScalar("lr"))
      return fail("setLearningRate: no function has an argument {host = \"lr\"}, the rate of its updates; "
                  "append-adam makes one, as in the train pipeline append-grad,append-adam");
    return rate_.set(std::move(schedule), steps_ / everyOf(*program_->module()));
  });
}

CallResult<void> Session::setLearningRate(double rate) { return replaceRate(rate); }
CallResult<void> Session::setLearningRate(std::string_view schedule) { return replaceRate(schedule); }
CallResult<void> Session::setLearningRate(LearningRate::Function function) {
  return replaceRate(std::move(function));
}

CallResult<void> Session::resetLearningRate() {
  return serve<void>([&]() -> Result<void> {
    rate_.clear();
    return {};
  });
}

CallResult<void> Session::setSteps(int64_t steps) {
  return serve<void>([&]() -> Result<void> {
    if (steps < 0) return fail(fmt::format("setSteps: {} is negative", steps));
    steps_ = steps;
    int64_t applied = steps / everyOf(*program_->module());
    if (applied < rate_.start()) rate_.rebase(applied);
    return {};
  });
}

SessionInfo Session::info() const {
  std::lock_guard lock(viewMutex_);
  return info_;
}

std::shared_ptr<const Module> Session::module() const {
  std::lock_guard lock(viewMutex_);
  return module_;
}

std::vector<std::string> Session::paramNames() const {
  std::vector<std::string> out;
  if (auto own = module())
    for (const Item* param : own->all(ItemKind::param)) out.push_back(param->name);
  return out;
}

CallResult<std::unique_ptr<Module>> Session::module(Stage stage) {
  return serve<std::unique_ptr<Module>>([&] { return program_->moduleAt(stage); });
}

CallResult<std::shared_ptr<const Module>> Session::moduleFor(const std::string& function,
                                                             const std::map<std::string, Shape>& shapes) {
  using Out = std::shared_ptr<const Module>;
  return serve<Out>([&]() -> Result<Out> {
    TG_TRY(const Item* func, program_->function(function));
    Inputs inputs;
    std::vector<std::pair<std::string, Type>> arguments;
    for (const auto& arg : func->body.args) {
      auto shape = shapes.find(arg->name);
      bool host = find(arg->attrs, "host");
      Shape given = shape == shapes.end() && host ? arg->type.shape : Shape{};
      if (shape != shapes.end()) given = shape->second;
      if (shape != shapes.end() || host) inputs.emplace(arg->name, HostArray::zeros(arg->type.dtype, given));
    }
    for (const auto& [name, shape] : shapes)
      if (!func->arg(name)) inputs.emplace(name, HostArray::zeros(DType::f32, shape));
    TG_TRY(SessionProgram::Callable callable, program_->callable(function, inputs, {}));
    for (const auto& arg : callable.func->body.args) arguments.emplace_back(arg->name, arg->type);
    TG_CHECK(checkInputs(function, arguments, inputs));
    return program_->moduleOf(callable);
  });
}

CallResult<int64_t> Session::kernelCount(const std::string& function) {
  return serve<int64_t>([&]() -> Result<int64_t> {
    TG_CHECK(program_->function(function));
    return program_->kernelCount(function);
  });
}

CallResult<Shape> Session::outputShape(const std::string& function, std::string_view result) {
  return serve<Shape>([&]() -> Result<Shape> {
    TG_TRY(const Item* func, program_->function(function));
    std::string known;
    for (const NamedType& own : func->results) {
      if (result.empty() || own.name == result) return own.type.shape;
      known += (known.empty() ? "" : ", ") + own.name;
    }
    return fail(
        fmt::format("@{} has no result '{}'; it has {}", function, result, known.empty() ? "none" : known));
  });
}

}  // namespace tg
