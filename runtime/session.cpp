#include "runtime/session.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "ir/verify.h"
#include "runtime/data/init.h"
#include "runtime/executor.h"
#include "runtime/finish.h"
#include "runtime/interp_runner.h"
#include "runtime/schedule.h"

namespace tg {

namespace {

class Stopwatch {
 public:
  double milliseconds() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// The elements of a nested list in row-major order.
void flatten(const Attr& attr, std::vector<double>& out) {
  if (attr.isNumber()) out.push_back(attr.number());
  for (const Attr& member : attr.list) flatten(member, out);
}

Result<HostArray> firstValue(const Item& item, uint64_t seed) {
  const Attr* init = find(item.attrs, "init");
  if (!init) {
    if (item.kind == ItemKind::state) return HostArray::zeros(item.type);
    return initialValue(item.name, item.type, "randn", std::vector<double>{0.02}, seed);
  }
  std::vector<double> args;
  for (const Attr& arg : init->list) flatten(arg, args);
  if (init->text != "dense") return initialValue(item.name, item.type, init->text, args, seed);
  if (static_cast<int64_t>(args.size()) != item.type.elements())
    return failAt(item.loc,
                  fmt::format("@{}: dense gives {} values for {}", item.name, args.size(), item.type.str()));
  HostArray value = HostArray::zeros(item.type);
  for (size_t i = 0; i < args.size(); ++i) value.set(static_cast<int64_t>(i), args[i]);
  return value;
}

bool hasCapture(const Item& func, const std::string& capture) {
  for (const auto& op : func.body.ops)
    if (op->code == Opcode::capture && op->word("name") == capture) return true;
  return false;
}

}  // namespace

Result<std::unique_ptr<Session>> Session::create(std::unique_ptr<Module> module, SessionOptions options) {
  std::unique_ptr<Session> session(new Session(std::move(options)));
  TG_CHECK(verify(*module));
  TG_CHECK(session->openDevice());
  TG_CHECK(session->finishModule(std::move(module)));
  TG_CHECK(session->makeRunner());
  session->measure();
  TG_CHECK(session->reset(session->options_.seed));
  return session;
}

void Session::remark(std::string message) const {
  if (options_.onDiagnostic) options_.onDiagnostic({Severity::remark, nullptr, std::move(message), {}});
}

Result<void> Session::openDevice() {
  if (options_.device == "interp" && !options_.shared) {
    info_.device = "interp";
    info_.why = "the reference interpreter was asked for";
    return {};
  }
  device_ = options_.shared;
  if (!device_) {
    TG_TRY(device_, vulkan::Device::open({options_.device, options_.validation, false, {}}));
  }
  info_.device = device_->info().name;
  info_.why = device_->why();
  info_.driver = device_->info().driver;
  return {};
}

Result<void> Session::finishModule(std::unique_ptr<Module> module) {
  if (!options_.trainPipeline.empty()) {
    TG_TRY(Finished trained, runPasses(std::move(module), options_.trainPipeline, options_.onDiagnostic));
    info_.milliseconds = std::move(trained.milliseconds);
    module = std::move(trained.module);
  }
  if (!device_) {
    module_ = std::move(module);
    return {};
  }
  if (module->stage == Stage::tensor) source_ = clone(*module);
  Target target = options_.target ? *options_.target : device_->info().target;
  TG_TRY(Finished done,
         finish(std::move(module), target,
                {"", options_.keepCaptures, options_.keepGrads, options_.tuning, options_.onDiagnostic}));
  for (auto& phase : done.milliseconds) info_.milliseconds.push_back(std::move(phase));
  module_ = std::move(done.module);
  return {};
}

Result<void> Session::makeRunner() {
  if (!device_) {
    TG_TRY(runner_, InterpRunner::create(module_));
    return {};
  }
  Stopwatch watch;
  // A cache that cannot be read or written costs time and nothing else.
  if (!options_.cache.empty()) (void)device_->loadCache(options_.cache);
  TG_TRY(runner_, Executor::create(*module_, device_));
  info_.milliseconds.emplace_back("pipelines", watch.milliseconds());
  if (!options_.cache.empty()) (void)device_->saveCache(options_.cache);
  return {};
}

void Session::measure() {
  for (const Item* param : module_->all(ItemKind::param)) info_.parameters += param->type.elements();
  for (const Item* buffer : module_->all(ItemKind::buffer)) {
    int64_t& bytes = buffer->name == "persistent" ? info_.persistentBytes
                     : buffer->name == "io"       ? info_.ioBytes
                                                  : info_.arenaBytes;
    bytes = buffer->bytes;
  }
  const Attr* plan = find(module_->attrs, "plan");
  const Attr* bound = plan ? plan->find("lower_bound") : nullptr;
  if (bound) info_.lowerBoundBytes = bound->integer;
}

Result<int64_t> Session::kernels(const std::string& function) const {
  const auto* executor = dynamic_cast<const Executor*>(runner_.get());
  if (!executor) return 0;
  TG_TRY(FunctionCounts counts, executor->counts(function));
  return counts.kernels();
}

Result<void> Session::fillHostScalars(const Item& func, int64_t step, Inputs& inputs, double* rate) const {
  for (const auto& arg : func.body.args) {
    const Attr* host = find(arg->attrs, "host");
    if (!host) continue;
    if (inputs.contains(arg->name)) {
      if (host->text == "lr" && rate) *rate = inputs[arg->name].at(0);
      continue;
    }
    HostArray value = HostArray::zeros(arg->type);
    if (host->text == "loss_scale") value.set(0, 1);
    if (host->text == "rng") {
      value.i32()[0] = static_cast<int32_t>(static_cast<uint32_t>(options_.seed));
      value.i32()[1] = static_cast<int32_t>(step - 1);
    }
    if (host->text == "lr") {
      const Attr* schedule = find(arg->attrs, "schedule");
      if (!rate_ && !schedule)
        return failAt(arg->loc,
                      fmt::format("%{} has no schedule: give it one, or call setLearningRate", arg->name));
      double lr = 0;
      if (rate_)
        lr = *rate_;
      else if (auto scheduled = learningRate(*schedule, step))
        lr = *scheduled;
      else
        return failAt(arg->loc, scheduled.error().message());
      value.set(0, lr);
      if (rate) *rate = lr;
    }
    inputs.emplace(arg->name, std::move(value));
  }
  return {};
}

Result<RunOutputs> Session::call(const std::string& function, Inputs inputs, int64_t step, bool captures,
                                 double* rate) {
  if (const Item* func = module_->func(function)) TG_CHECK(fillHostScalars(*func, step, inputs, rate));
  return runner_->run(function, inputs, captures);
}

Result<StepResult> Session::step(const Inputs& inputs) {
  std::lock_guard lock(mutex_);
  StepResult out;
  out.step = steps_ + 1;
  const std::string& function = options_.trainFunction;
  TG_TRY(RunOutputs outputs, call(function, inputs, out.step, false, &out.learningRate));
  steps_ = out.step;
  lastStep_ = function;
  if (outputs.results.empty()) return fail(fmt::format("@{} has no result that could be its loss", function));
  out.loss = outputs.results.front().second.at(0);
  out.results = std::move(outputs.results);
  return out;
}

Result<RunOutputs> Session::run(const std::string& function, const Inputs& inputs,
                                const std::vector<std::string>& captures) {
  std::lock_guard lock(mutex_);
  if (!captures.empty()) TG_CHECK(keepAlso(function, captures));
  bool training = function == options_.trainFunction;
  TG_TRY(RunOutputs out, call(function, inputs, steps_ + 1, !captures.empty(), nullptr));
  if (training) {
    ++steps_;
    lastStep_ = function;
  }
  std::erase_if(out.captures, [&](const auto& capture) {
    return std::find(captures.begin(), captures.end(), capture.first) == captures.end();
  });
  return out;
}

const Item* Session::current(const std::string& function) const {
  auto variant = variants_.find(function);
  return variant == variants_.end() ? module_->func(function) : variant->second->func(function);
}

// Another compilation of the function, with the captures asked for, over the same params and states.
Result<void> Session::keepAlso(const std::string& function, const std::vector<std::string>& captures) {
  const Item* running = current(function);
  if (!running) return {};  // the call says so
  const Item* written = source_ ? source_->func(function) : running;
  std::string missing, kept, known;
  for (const auto& op : written->body.ops)
    if (op->code == Opcode::capture)
      known += fmt::format("{}{}", known.empty() ? "" : ", ", op->word("name"));
  for (const std::string& capture : captures) {
    if (!hasCapture(*written, capture))
      return fail(fmt::format("@{} has no capture '{}'; it has {}", function, capture,
                              known.empty() ? "none" : known));
    if (!hasCapture(*running, capture)) missing = capture;
    kept += (kept.empty() ? "" : "|") + capture;
  }
  if (missing.empty()) return {};
  remark(
      fmt::format("capture '{}' of @{} is not kept: the function is compiled once more", missing, function));
  for (const auto& op : running->body.ops)
    if (op->code == Opcode::capture) kept += "|" + op->word("name");
  Target target = options_.target ? *options_.target : device_->info().target;
  TG_TRY(Finished done, finish(clone(*source_), target,
                               {"", kept, options_.keepGrads, options_.tuning, options_.onDiagnostic}));
  TG_CHECK(static_cast<Executor&>(*runner_).addFunction(*done.module, function));
  variants_[function] = std::move(done.module);
  return {};
}

Result<void> Session::initialise(ItemKind kind) {
  for (const Item* item : module_->all(kind)) {
    TG_TRY(HostArray value, firstValue(*item, options_.seed));
    TG_CHECK(runner_->setStorage(item->name, value));
  }
  return {};
}

Result<void> Session::reset(uint64_t seed) {
  std::lock_guard lock(mutex_);
  options_.seed = seed;
  TG_CHECK(initialise(ItemKind::param));
  TG_CHECK(initialise(ItemKind::state));
  steps_ = 0;
  return {};
}

Result<void> Session::resetOptimizerState() {
  std::lock_guard lock(mutex_);
  TG_CHECK(initialise(ItemKind::state));
  steps_ = 0;
  return {};
}

void Session::setLearningRate(std::optional<double> rate) {
  std::lock_guard lock(mutex_);
  rate_ = rate;
}

Result<void> Session::upload(ItemKind kind, const NamedArrays& values, bool partial) {
  std::lock_guard lock(mutex_);
  auto given = [&](const std::string& name) {
    for (const auto& [own, value] : values)
      if (own == name) return true;
    return false;
  };
  std::string missing;
  for (const Item* item : module_->all(kind))
    if (!given(item->name)) missing += (missing.empty() ? "@" : ", @") + item->name;
  if (!partial && !missing.empty())
    return fail(fmt::format("no value for {}; a part alone wants `partial`", missing));
  for (const auto& [name, value] : values) {
    const Item* item = module_->find(kind, name);
    if (!item) return fail(fmt::format("the module has no {} @{}", tg::name(kind), name));
    if (item->type != value.type())
      return fail(fmt::format("@{} is {}, not {}", name, item->type.str(), value.type().str()));
  }
  for (const auto& [name, value] : values) TG_CHECK(runner_->setStorage(name, value));
  return {};
}

Result<NamedArrays> Session::download(ItemKind kind) {
  std::lock_guard lock(mutex_);
  NamedArrays out;
  for (const Item* item : module_->all(kind)) {
    TG_TRY(HostArray value, runner_->storage(item->name));
    out.emplace_back(item->name, std::move(value));
  }
  return out;
}

Result<void> Session::uploadParams(const NamedArrays& values, bool partial) {
  return upload(ItemKind::param, values, partial);
}
Result<NamedArrays> Session::downloadParams() { return download(ItemKind::param); }
Result<void> Session::uploadStates(const NamedArrays& values, bool partial) {
  return upload(ItemKind::state, values, partial);
}
Result<NamedArrays> Session::downloadStates() { return download(ItemKind::state); }

Result<NamedArrays> Session::downloadParamGrads() {
  std::lock_guard lock(mutex_);
  if (lastStep_.empty()) return fail("there are no gradients before the first step");
  TG_TRY(NamedArrays grads, runner_->paramGrads(lastStep_));
  if (grads.empty())
    return fail(
        fmt::format("@{} keeps no gradients: make the session with keepGrads, of a module with tg.param_grad "
                    "(append-grad)",
                    lastStep_));
  return grads;
}

}  // namespace tg
