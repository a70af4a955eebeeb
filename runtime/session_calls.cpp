// SPDX-License-Identifier: Apache-2.0
// A session's calls: host scalars, steps, steps begun ahead, and the update after accumulated gradients.
#include <algorithm>

#include "ir/find.h"
#include "runtime/batch.h"
#include "runtime/session.h"
#include "runtime/session_program.h"

namespace tg {

namespace {

Captures toCaptures(const std::string& function, const SessionProgram::Callable& callable, NamedArrays kept) {
  std::erase_if(kept, [&](const auto& capture) { return !contains(callable.read, capture.first); });
  return {function, callable.captures, std::move(kept)};
}

/// Whether the session must fill in a random key that `inputs` does not have.
bool drawsByHost(const Item& func, const InputViews& inputs) {
  const Value* key = hostArgument(func, "rng");
  return key && !inputs.contains(key->name);
}

}  // namespace

Result<double> Session::rateAt(const Value& argument, int64_t step) const {
  if (rate_) return rate_.at(step);
  const Attr* schedule = find(argument.attrs, "schedule");
  if (!schedule)
    return failAt(argument.loc, "%{} has no schedule: give it one, or call setLearningRate", argument.name);
  auto rate = learningRate(*schedule, step);
  if (!rate) return failAt(argument.loc, rate.error().message());
  return *rate;
}

void Session::countFrom(int64_t step) {
  steps_ = step;
  draws_.clear();
}

// `step` counts from 1. Schedules count the optimizer's steps; `rng` counts every step, and the calls between steps
// too: `drawn` are those since the last step.
Result<void> Session::fillHostScalars(const Item& func, int64_t step, uint32_t drawn, const InputViews& given,
                                      Inputs& filled, double* rate, int64_t part) const {
  constexpr uint32_t kGolden = 0x9e3779b9;  // its multiples are spread over all 32 bits
  const int64_t every = program_->stepsPerCall(func);
  bool isFirst = true;  // of several rates, the first is reported
  auto report = [&](double value) {
    if (std::exchange(isFirst, false)) *rate = value;
  };
  for (const auto& arg : func.body.args) {
    const Attr* host = find(arg->attrs, "host");
    if (!host) continue;
    if (auto own = given.find(arg->name); own != given.end()) {
      if (host->text == "lr" && own->second.elements() == 1) report(own->second.at(0));
      continue;
    }
    HostArray value = HostArray::zeros(arg->type);
    if (host->text == "loss_scale") value.set(0, 1);
    if (host->text == "rng") {
      value.i32()[0] = static_cast<int32_t>(static_cast<uint32_t>(seed_.load()) + drawn * kGolden);
      // Each rank draws the numbers that a single rank would draw for this rank's part of the batch.
      const collective::Engine* ranks = func.name == options_.trainFunction ? options_.ranks.get() : nullptr;
      auto calls = static_cast<uint64_t>(step - 1);
      if (func.name == options_.trainFunction)
        calls = calls * static_cast<uint64_t>(options_.parts) + static_cast<uint64_t>(part);
      if (ranks) calls = calls * static_cast<uint64_t>(ranks->ranks()) + static_cast<uint64_t>(ranks->rank());
      value.i32()[1] =
          static_cast<int32_t>(static_cast<uint32_t>(calls));  // the low bits, unsigned: it may wrap
    }
    if (host->text == "lr") {
      TG_TRY(const double own, rateAt(*arg, (step - 1) / every + 1));
      report(own);
      value.set(0, own);
    }
    filled.emplace(arg->name, std::move(value));
  }
  return {};
}

Result<void> Session::checkLoss() const {
  TG_TRY(const Item* func, program_->function(options_.trainFunction));
  if (func->results.empty())
    return failAt(func->loc, "@{} has no result that could be its loss; call it with run",
                  options_.trainFunction);
  const NamedType& first = func->results.front();
  if (first.type == Type::tensor(DType::f32, {})) return {};
  return failAt(
      func->loc,
      "step needs a loss, a rank-0 f32, as the first result of @{}, which is '{}' : {}; call it with run",
      options_.trainFunction, first.name, first.type.str());
}

/// What may be wrong with a step in parts, so that no part begins if the last cannot: only that one returns captures.
Result<void> Session::checkParts(const std::string& function, const InputViews& whole,
                                 const std::vector<std::string>& captures) {
  TG_CHECK(checkLoss());
  if (captures.empty()) return {};
  TG_TRY(const Item* func, program_->function(function));
  Inputs copies;
  TG_TRY(InputViews last, partOf(*func, whole, options_.parts - 1, options_.parts, copies));
  TG_CHECK(program_->callable(function, last, captures));
  return {};
}

/// Begins one call with these inputs and the host scalars that they lack.
Result<std::shared_ptr<PendingCall>>
Session::beginCall(Begun& begun, InputViews inputs, const std::vector<std::string>& captures, int64_t part) {
  TG_TRY(begun.callable, program_->callable(begun.function, inputs, captures));
  const uint32_t* drawn = valueIn(draws_, begun.function);
  Inputs scalars;
  TG_CHECK(fillHostScalars(*begun.callable.func, begun.out.step, drawn ? *drawn : 0, inputs, scalars,
                           &begun.out.learningRate, part));
  inputs.add(scalars);
  return program_->runner().begin(begun.callable.key, inputs, !captures.empty());
}

Result<Session::Begun> Session::begin(const std::string& function, const InputViews& inputs,
                                      const std::vector<std::string>& captures) {
  TG_TRY(const Item* func, program_->function(function));
  TG_CHECK(checkNames(*func, inputs));
  for (const auto& [name, array] : inputs) TG_CHECK(checkBytes(function, name, array));
  Begun begun{function, {}, {}, {}, nullptr, {}};
  begun.out.step = steps_ + 1;
  const bool trains = function == options_.trainFunction;
  const int64_t parts = trains ? options_.parts : 1;
  // Whatever may be wrong is found before the first call begins, which cannot be undone.
  std::vector<DueCall> due;
  if (trains) {
    TG_TRY(due, dueBehind(begun.out.step));
  }
  if (parts > 1) TG_CHECK(checkParts(function, inputs, captures));
  const std::vector<std::string> none;
  for (int64_t part = 0; part < parts; ++part) {
    const bool last = part + 1 == parts;
    Inputs copies;
    TG_TRY(InputViews rows, partOf(*func, inputs, part, parts, copies));
    TG_TRY((last ? begun.call : begun.parts.emplace_back()),
           beginCall(begun, std::move(rows), last ? captures : none, part));
  }
  if (!trains) {
    if (drawsByHost(*begun.callable.func, inputs)) ++draws_[function];
    return begun;
  }
  countFrom(begun.out.step);
  lastStep_ = begun.callable.key;
  program_->pin(lastStep_);
  TG_CHECK(beginDue(begun, due));
  return begun;
}

/// The calls that are due behind a step, such as the update for a group of accumulated gradients.
Result<std::vector<Session::DueCall>> Session::dueBehind(int64_t step) const {
  std::vector<DueCall> calls;
  for (const Item* func : program_->due(step)) {
    DueCall& call = calls.emplace_back();
    call.func = func;
    TG_CHECK(fillHostScalars(*func, step, 0, {}, call.scalars, &call.rate));
  }
  return calls;
}

Result<void> Session::beginDue(Begun& begun, const std::vector<DueCall>& due) {
  begun.out.applied = !program_->update() && program_->learns();
  for (const DueCall& call : due) {
    TG_TRY(begun.due.emplace_back(), program_->runner().begin(call.func->name, call.scalars, false));
    if (call.func != program_->update()) continue;
    begun.out.applied = true;
    begun.out.learningRate = call.rate;
  }
  return {};
}

CallResult<bool> Session::repeatDue(int64_t undone) {
  return serve<bool>([&]() -> Result<bool> {
    bool called = false;
    TG_TRY(const std::vector<DueCall> due, dueBehind(steps_));
    for (const DueCall& call : due) {
      if (call.func == program_->update() && undone >= program_->stepsPerUpdate()) continue;
      TG_CHECK(program_->runner().run(call.func->name, call.scalars, false));
      called = true;
    }
    return called;
  });
}

/// The results of a step in parts: means of numbers of f32, such as the loss, and other results of the last part.
static void takeMeans(const std::vector<RunOutputs>& parts, RunOutputs& last) {
  for (size_t i = 0; i < last.results.size(); ++i) {
    HostArray& result = last.results[i].second;
    if (!(result.type() == Type::tensor(DType::f32, {}))) continue;
    double sum = result.at(0);
    for (const RunOutputs& part : parts) sum += part.results[i].second.at(0);
    result.set(0, sum / static_cast<double>(parts.size() + 1));
  }
}

Result<StepResult> Session::end(Begun begun) {
  std::vector<RunOutputs> parts;
  for (const auto& part : begun.parts) {
    TG_TRY(parts.emplace_back(), part->take());
  }
  TG_TRY(RunOutputs outputs, begun.call->take());
  if (!parts.empty()) takeMeans(parts, outputs);
  StepResult out = std::move(begun.out);
  out.results = std::move(outputs.results);
  out.captures = toCaptures(begun.function, begun.callable, std::move(outputs.captures));
  for (const auto& call : begun.due) {
    TG_TRY(RunOutputs updated, call->take());
    for (auto& result : updated.results) out.results.push_back(std::move(result));
  }
  return out;
}

Result<StepResult> Session::endOfStep(Begun begun) {
  TG_TRY(StepResult out, end(std::move(begun)));
  out.loss = out.results.front().second.at(0);
  return out;
}

CallResult<StepResult> Session::step(const Inputs& inputs, const std::vector<std::string>& captures) {
  return serve<StepResult>([&]() -> Result<StepResult> {
    TG_CHECK(checkLoss());
    TG_TRY(Begun begun, begin(options_.trainFunction, inputs, captures));
    return endOfStep(std::move(begun));
  });
}

CallResult<int64_t> Session::beginStep(const Inputs& inputs) {
  return serve<int64_t>([&]() -> Result<int64_t> {
    TG_CHECK(checkLoss());
    TG_TRY(Begun begun, begin(options_.trainFunction, inputs, {}));
    const int64_t step = begun.out.step;
    begun_.push_back(std::move(begun));
    inFlight_ = begun_.size();
    return step;
  });
}

void Session::forgetSteps() {
  begun_.clear();
  inFlight_ = 0;
}

CallResult<StepResult> Session::endStep() {
  return serve<StepResult>([&]() -> Result<StepResult> {
    if (begun_.empty()) return fail("endStep: no step is in flight; beginStep begins one");
    Begun oldest = std::move(begun_.front());
    begun_.erase(begun_.begin());
    inFlight_ = begun_.size();
    return endOfStep(std::move(oldest));
  });
}

CallResult<CallOutputs> Session::run(const std::string& function, const Inputs& inputs,
                                     const std::vector<std::string>& captures) {
  return serve<CallOutputs>([&]() -> Result<CallOutputs> {
    TG_TRY(Begun begun, begin(function, inputs, captures));
    TG_TRY(StepResult out, end(std::move(begun)));
    return CallOutputs{std::move(out.results), std::move(out.captures)};
  });
}

}  // namespace tg
