// SPDX-License-Identifier: Apache-2.0
#include "runtime/session.h"

#include "ir/text.h"
#include "runtime/session_program.h"

namespace tg {

/// The largest step count. It is far from overflow, and all integers up to it are exact as doubles.
static constexpr int64_t kMostSteps = int64_t{1} << 53;

Session::Session(SessionOptions options) : options_(std::move(options)) {}

Session::~Session() { close(); }

Result<std::unique_ptr<Session>> Session::create(std::unique_ptr<Module> module, SessionOptions options) {
  TG_CHECK(checkGiven(module.get(), "Session::create"));
  std::unique_ptr<Session> session(new Session(std::move(options)));
  TG_CHECK(session->openDevice());
  TG_TRY(session->program_, SessionProgram::create(std::move(module), session->options_, session->device_));
  session->publish();
  TG_CHECK(session->resetTo({.seed = session->options_.seed}, /*isNew=*/true));
  return session;
}

/// An error if this thread is inside a call of the same session: waiting for that call would be a deadlock.
Result<void> Session::checkOutside() const {
  if (!queue_.isMine()) return {};
  return fail(
      "the session is called from inside one of its own calls, by a function or a source of tensors that it "
      "was given; copyTensors gives a source that does not call it");
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

CallResult<void> Session::attach(std::unique_ptr<Module> forward) {
  return serve<void>([&]() -> Result<void> {
    TG_CHECK(checkGiven(forward.get(), "attach"));
    std::unique_ptr<Module> given = clone(*forward);
    TG_CHECK(program_->attach(std::move(forward)));
    attached_.push_back(std::move(given));
    return {};
  });
}

Result<void> Session::replace(std::unique_ptr<Module> module, const ReplaceOptions& replacing) {
  TG_CHECK(checkGiven(module.get(), "replaceModule"));
  SessionOptions options = options_;
  const uint64_t seed = replacing.seed.value_or(seed_);
  options.trainPipeline = replacing.optimizer ? replacing.optimizer : options.trainPipeline;
  TG_TRY(auto program, SessionProgram::create(std::move(module), options, device_));
  std::string before = program_->optimizer(), after = program->optimizer();
  if (before != after && !before.empty() && !after.empty())
    return fail("replaceModule: the session trains with {}, the new module with {}: make a session of its "
                "own for that",
                before, after);
  for (const auto& forward : attached_) TG_CHECK(program->attach(clone(*forward)));
  TG_CHECK(initialise(*program, ItemKind::param, seed, /*isNew=*/true));
  TG_CHECK(initialise(*program, ItemKind::state, seed, /*isNew=*/true));
  seed_ = seed;
  options_ = std::move(options);
  program_ = std::move(program);
  rate_.clear();
  lastStep_.clear();
  forgetSteps();
  countFrom(0);
  publish();
  return {};
}

CallResult<void> Session::replaceModule(std::unique_ptr<Module> module, ReplaceOptions options) {
  TG_CHECK(checkOutside());
  auto turn = queue_.enterInstead("the session was given another module before the call's turn");
  if (!turn) return CallResult<void>::aborted(turn.takeError());
  return replace(std::move(module), options);
}

void Session::close() {
  if (!queue_.close("the session is closed")) return;  // the running call still needs what would be freed
  std::lock_guard lock(viewMutex_);
  forgetSteps();
  program_.reset();
  module_.reset();
}

template <class Schedule>
CallResult<void> Session::replaceRate(Schedule schedule, std::optional<int64_t> afterStep) {
  return serve<void>([&]() -> Result<void> {
    if (!program_->hasHostScalar("lr"))
      return fail("setLearningRate: no function has an argument {host = \"lr\"}, the rate of its updates; "
                  "append-adam makes one, as in the train pipeline append-grad,append-adam");
    const int64_t applied = steps_ / program_->stepsPerUpdate();
    if (afterStep && *afterStep > applied)
      return fail("setLearningRate: the schedule begins after step {}, but only {} are done", *afterStep,
                  applied);
    TG_CHECK(rate_.set(std::move(schedule), afterStep.value_or(applied)));
    std::lock_guard lock(viewMutex_);
    info_.schedule = rate_.text();
    return {};
  });
}

CallResult<void> Session::setLearningRate(double rate, std::optional<int64_t> afterStep) {
  return replaceRate(rate, afterStep);
}
CallResult<void> Session::setLearningRate(std::string_view schedule, std::optional<int64_t> afterStep) {
  return replaceRate(schedule, afterStep);
}
CallResult<void> Session::setLearningRate(LearningRate::Function function, std::optional<int64_t> afterStep) {
  return replaceRate(std::move(function), afterStep);
}

CallResult<void> Session::resetLearningRate() {
  return serve<void>([&]() -> Result<void> {
    rate_.clear();
    std::lock_guard lock(viewMutex_);
    info_.schedule.clear();
    return {};
  });
}

CallResult<void> Session::setSteps(int64_t steps) {
  return serve<void>([&]() -> Result<void> {
    if (steps < 0 || steps > kMostSteps) return fail("setSteps: {} is not from 0 to {}", steps, kMostSteps);
    countFrom(steps);
    int64_t applied = steps / program_->stepsPerUpdate();
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
    InputViews inputs;  // types only, without bytes
    std::vector<std::pair<std::string, Type>> arguments;
    for (const auto& arg : func->body.args) {
      auto shape = shapes.find(arg->name);
      bool host = find(arg->attrs, "host");
      Shape given = shape == shapes.end() && host ? arg->type.shape : Shape{};
      if (shape != shapes.end()) given = shape->second;
      if (shape != shapes.end() || host) inputs.emplace(arg->name, HostView(arg->type.dtype, given, {}));
    }
    for (const auto& [name, shape] : shapes)
      if (!func->arg(name)) inputs.emplace(name, HostView(DType::f32, shape, {}));
    TG_TRY(SessionProgram::Callable callable, program_->callable(function, inputs, {}));
    for (const auto& arg : callable.func->body.args) arguments.emplace_back(arg->name, arg->type);
    TG_CHECK(checkTypes(function, arguments, inputs));
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
    for (const NamedType& own : func->results)
      if (result.empty() || own.name == result) return own.type.shape;
    const std::string known = listText(func->results, &NamedType::name);
    return fail("@{} has no result '{}'; it has {}", function, result, known.empty() ? "none" : known);
  });
}

}  // namespace tg
