// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "ir/collective.h"
#include "ir/stopwatch.h"
#include "ir/text.h"
#include "runtime/train/evaluation.h"
#include "runtime/train/prefetch.h"
#include "runtime/train/tensor_facts.h"

namespace tg {

namespace {

constexpr size_t kMeanSteps = 20;  // the loss reported at the end is the mean over these

double now() { return inSeconds(std::chrono::steady_clock::now().time_since_epoch()); }

}  // namespace

double Trainer::secondsSoFar() const { return before_ + now() - began_; }

Result<Trainer::Snapshot> Trainer::snapshot() {
  Snapshot out;
  sessionFailed_ = true;
  TG_TRY(out.params, session_.downloadParams());
  TG_TRY(out.states, session_.downloadStates());
  sessionFailed_ = false;
  return out;
}

Result<void> Trainer::begin(const Inputs& inputs) {
  sessionFailed_ = true;
  TG_TRY(const int64_t begun, session_.beginStep(inputs));
  begun_ = begun * options_.stride;
  sessionFailed_ = false;
  return {};
}

/// A step of the session counts for several steps of the run, so the run can neither begin nor end between these.
Result<void> Trainer::countSteps() {
  const int64_t stride = options_.stride;
  if (stride < 1) return fail("stride = {} is not a number of steps, 1 or more", stride);
  if (options_.steps < 0) return fail("steps = {} is not a number of steps, 0 or more", options_.steps);
  grain_ = options_.wholeUpdates() ? stride * session_.info().stepsPerUpdate : stride;
  resumedInside_ = !options_.ranks && state_.step % grain_ != 0;
  auto check = [](const char* what, int64_t steps, int64_t unit, const std::string& called) -> Result<void> {
    if (steps % unit == 0) return {};
    const int64_t below = steps / unit * unit, above = below + unit;
    return fail("{} = {} is not a multiple of {}: {}", what, steps, called,
                below > 0 ? fmt::format("{} and {} are", below, above) : fmt::format("{} is", above));
  };
  const std::string strides = fmt::format("stride = {}, which each step of the session counts", stride);
  const std::string updates = fmt::format("the {} steps of an update", grain_);
  TG_CHECK(check("steps", options_.steps, stride, strides));
  TG_CHECK(check("steps", options_.steps, grain_, updates));
  TG_CHECK(check("the state's step", state_.step, stride, strides));
  return options_.ranks ? check("the state's step", state_.step, grain_, updates) : Result<void>();
}

static std::string kindText(ItemKind kind) { return kind == ItemKind::param ? "parameter " : "state "; }

/// Collects what the checks of steps need, before the first step.
Result<void> Trainer::prepare() {
  const auto module = session_.module();
  if (!module) return fail("the session is closed");
  scalesLoss_ = module->find(ItemKind::state, "loss_scale") != nullptr;
  for (const Item* state : module->all(ItemKind::state))
    together_ = together_ || (options_.ranks && wholeOf(*state));
  if (state_.bestValLoss && !std::isfinite(*state_.bestValLoss)) state_.bestValLoss.reset();
  sessionFailed_ = true;
  for (const ItemKind kind : {ItemKind::param, ItemKind::state}) {
    const TensorSource source = session_.tensors(kind);
    TG_CHECK(eachPieceOf(source,
                         [&](size_t tensor, int64_t first, std::span<const std::byte> piece) -> Result<void> {
                           const auto& [name, type] = source.tensors[tensor];
                           if (given_.contains(name)) return {};
                           std::string found = notFiniteIn(name, type, first, piece);
                           if (!found.empty()) given_[name] = std::move(found);
                           return {};
                         }));
  }
  sessionFailed_ = false;
  if (options_.onNan == OnNan::skip) {
    TG_TRY(good_, snapshot());
  }
  return {};
}

/// The same tensors, but reading an element that is not finite is an error, which is recorded in `watch`. In a module
/// that scales its loss, states such as accumulated gradients may hold any value until the module has checked them.
TensorSource Trainer::watched(ItemKind kind, TensorSource source, Watch& watch) const {
  TensorSource out;
  out.tensors = source.tensors;
  out.read = [this, kind, source = std::move(source), &watch](size_t tensor, int64_t first,
                                                              std::span<std::byte> piece) -> Result<void> {
    watch.failed = true;
    TG_CHECK(source.piece(tensor, first, piece));
    watch.failed = false;
    const auto& [name, type] = source.tensors[tensor];
    const bool free = given_.contains(name) || (kind == ItemKind::state && scalesLoss_);
    const std::string wrong = free ? "" : notFiniteIn(name, type, first, piece);
    if (wrong.empty()) return {};
    watch.found = kindText(kind) + wrong;
    return fail(watch.found);
  };
  return out;
}

/// The first element of params and states that is not finite, or "".
Result<std::string> Trainer::notFinite(const TensorSource& params, const TensorSource& states) {
  Watch watch;
  auto look = [](size_t, int64_t, std::span<const std::byte>) { return Result<void>(); };
  auto all = eachPieceOf(watched(ItemKind::param, params, watch), look);
  if (all) all = eachPieceOf(watched(ItemKind::state, states, watch), look);
  sessionFailed_ = watch.failed;
  if (!all && watch.found.empty()) return all.takeError();
  return watch.found;
}

/// The reason why a step is not good, or "".
Result<std::string> Trainer::faultOf(const StepResult& step) {
  if (!std::isfinite(step.loss)) return fmt::format("the loss is {} at step {}", step.loss, step.step);
  std::optional<double> norm;
  for (const auto& [name, value] : step.results)
    if (name.starts_with("grad_norm") && value.elements() == 1 && !std::isfinite(value.at(0)))
      norm = value.at(0);
  if (options_.onNan == OnNan::skip) {
    TG_TRY(Snapshot after, snapshot());
    TG_TRY(const std::string found, faultIn(after));
    if (!found.empty()) return fmt::format("{} after step {}", found, step.step);
    if (step.applied)
      endUpdate();
    else if (!beforeUpdate_)
      beforeUpdate_ = std::move(good_);
    good_ = std::move(after);
  } else if (norm && !scalesLoss_) {
    return fmt::format("the norm of the gradients is {} at step {}", *norm, step.step);
  }
  state_.leftOut = 0;
  // A module that scales its loss leaves out an update whose norm is not finite. Steps that only accumulate have no norm.
  if (norm && scalesLoss_ && ++state_.withoutUpdate >= kMostLeftOut)
    return fmt::format(
        "the gradients of {} updates in a row, the last of them in step {}, are not finite at any loss scale",
        state_.withoutUpdate, step.step);
  if (!norm && step.applied) state_.withoutUpdate = 0;
  return std::string();
}

/// The description of an input of this step that is not finite, or "".
std::string Trainer::notFiniteInput(int64_t step) const { return feed_.notFinite(step / options_.stride); }

/// A note on the steps that were skipped before the one that ends the run.
static std::string alsoLeftOut(int64_t before) {
  if (before == 0) return ", and it was the only step";
  if (before == 1) return ", and the step before it was left out too";
  return fmt::format(", and the {} steps before it were left out too", before);
}

/// The first element of params and states of any rank that is not finite, or "".
Result<std::string> Trainer::faultIn(const Snapshot& taken) {
  TG_TRY(std::string found, notFinite(sourceOf(taken.params), sourceOf(taken.states)));
  if (!options_.ranks) return found;
  // Gradients that are not summed over the ranks yet, and shards, are each rank's own.
  TG_TRY(const std::vector<std::string> all, options_.ranks->allGather(found));
  return *std::ranges::max_element(all);
}

/// Notes that the next step begins an update.
void Trainer::endUpdate() {
  beforeUpdate_.reset();
  resumedInside_ = false;
}

Result<void> Trainer::restore(const Snapshot& taken) {
  TG_CHECK(session_.uploadParams(taken.params));
  return session_.uploadStates(taken.states);
}

/// Restores params and states as the last good step left them. Functions that were due behind the step are called again:
/// the batch counts in the mean of accumulated gradients with a gradient of 0. An update of which no batch is good, or
/// whose result is not finite, is left out, together with its gradients.
Result<void> Trainer::leaveOut(const StepResult& step, const std::string& why, TrainObserver& observer) {
  TG_CHECK(restore(good_));
  ++summary_.leftOut;
  state_.leftOut += options_.stride;
  sessionFailed_ = true;
  TG_TRY(bool updated, session_.repeatDue(state_.leftOut / options_.stride));
  std::string fault;
  if (updated) {
    TG_TRY(Snapshot after, snapshot());
    TG_TRY(const std::string found, faultIn(after));
    updated = found.empty();
    if (!updated && resumedInside_)
      fault = fmt::format("{}; {} after its update, which cannot be undone: the run was resumed inside of it",
                          why, found);
    if (updated)
      good_ = std::move(after);
    else if (beforeUpdate_)
      good_ = *std::move(beforeUpdate_);
    if (!updated) TG_CHECK(restore(good_));
  }
  if (step.applied) {
    endUpdate();
    state_.withoutUpdate = updated ? 0 : state_.withoutUpdate + 1;
  }
  sessionFailed_ = false;
  const std::string data = notFiniteInput(step.step);
  observer.onSkip(step, data.empty() ? why : fmt::format("{}: input {}", why, data), updated);
  const bool allOfRun = state_.leftOut == state_.step && state_.step >= options_.steps;
  if (fault.empty() && (state_.leftOut >= kMostLeftOut || allOfRun))
    fault = why + alsoLeftOut(state_.leftOut - options_.stride);
  if (fault.empty() && state_.withoutUpdate >= kMostLeftOut)
    fault = fmt::format("{}, and none of {} updates in a row could stay", why, state_.withoutUpdate);
  if (!fault.empty()) endAtFault(fault, state_.step);
  return {};
}

void Trainer::endAtFault(std::string fault, int64_t step) {
  summary_.fault = std::move(fault);
  const std::string data = notFiniteInput(step);
  if (!data.empty()) summary_.faultNotes.push_back("input " + data);
}

/// Names a tensor that the step has spoiled, for a note. A step begun after it may have spoiled others.
Result<void> Trainer::lookAtFault() {
  if (options_.onNan == OnNan::skip) return {};  // already named, and undone
  TG_TRY(const std::string found,
         notFinite(session_.tensors(ItemKind::param), session_.tensors(ItemKind::state)));
  if (!found.empty())
    summary_.faultNotes.push_back(fmt::format("{} after step {}", found, session_.steps() * options_.stride));
  // A state that is not finite may be a mask; a parameter is more likely a mistake.
  std::vector<std::string> params;
  for (const auto& [name, given] : given_)
    if (session_.module()->find(ItemKind::param, name)) params.push_back(kindText(ItemKind::param) + given);
  if (!params.empty())
    summary_.faultNotes.push_back(fmt::format(
        "{} since training began{}", params[0],
        params.size() == 1 ? "" : fmt::format(", and so are elements of {} more", params.size() - 1)));
  return {};
}

/// The state's evaluation counts as owed until its loss is known, since a stop may interrupt it.
Result<void> Trainer::evaluate(TrainObserver& observer, TrainControl& control) {
  state_.evaluationOwed = true;
  auto evaluated = tg::evaluate(session_, feed_, options_.evalBatches, sessionFailed_, &control.stop);
  if (!evaluated)
    return sessionFailed_ ? evaluated.takeError() : withoutData(evaluated.takeError(), observer, control);
  if (!*evaluated) return {};
  state_.evaluationOwed = false;
  EvalResult result{std::move(**evaluated), state_.step};
  state_.valLoss = result.loss;
  // A loss that is not finite is never the best.
  result.best = std::isfinite(result.loss) && (!state_.bestValLoss || result.loss < *state_.bestValLoss);
  if (result.best) {
    state_.bestValLoss = result.loss;
    state_.bestStep = state_.step;
  }
  result.bestLoss = state_.bestValLoss;
  result.bestStep = state_.bestStep;
  TG_CHECK(observer.onEval(result));
  if (result.best && options_.keepBest) TG_CHECK(saveSoon(observer, control));
  return {};
}

/// Before the first step: repeats an evaluation that an earlier part of the run owes, and saves a checkpoint with it.
Result<void> Trainer::makeUp(TrainObserver& observer, TrainControl& control) {
  if (!owesEvaluation()) return {};
  TG_CHECK(evaluate(observer, control));
  return state_.evaluationOwed ? Result<void>() : saveSoon(observer, control);
}

/// Writes tensors piece by piece, and checks each. Does not touch anything that changes while steps go on.
Trainer::Saved Trainer::write(TrainState state, TensorSource params, TensorSource states) const {
  Saved saved;
  saved.step = state.step;
  std::vector<int64_t> keep;
  if (options_.keepBest && state.bestValLoss) keep.push_back(state.bestStep);
  saved.path = saveCheckpoint(options_.runDir, std::move(state),
                              watched(ItemKind::param, std::move(params), saved.watch),
                              watched(ItemKind::state, std::move(states), saved.watch));
  // Pruning reads the checkpoints that it keeps, so skip it if nothing can be removed.
  if (saved.path && options_.keepLast)
    if (auto pruned = pruneCheckpoints(options_.runDir, options_.keepLast, keep); !pruned)
      saved.path = pruned.takeError();
  return saved;
}

/// Reports the outcome of a checkpoint. Params and states that are not finite were not saved, and end the run.
Result<void> Trainer::finish(Saved saved, TrainObserver& observer) {
  if (!saved.watch.found.empty()) {
    endAtFault(fmt::format("{} after step {}", saved.watch.found, saved.step), saved.step);
    return {};
  }
  sessionFailed_ = sessionFailed_ || saved.watch.failed;
  TG_TRY(summary_.checkpoint, std::move(saved.path));
  summary_.checkpointStep = saved.step;
  observer.onSave(summary_.checkpoint, saved.step);
  return {};
}

/// Finishes the checkpoint that is being written, if it is done, or if `wait` is set.
Result<void> Trainer::endSave(TrainObserver& observer, bool wait) {
  if (!saving_.valid()) return {};
  if (!wait && saving_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return {};
  const double from = now();
  Saved saved = saving_.get();
  if (wait) observer.onWait(now() - from);
  return finish(std::move(saved), observer);
}

/// Saves now. With sharded states it instead asks all ranks to save before the next step.
Result<void> Trainer::saveSoon(TrainObserver& observer, TrainControl& control) {
  saveAsked_ = together_;
  return together_ ? Result<void>() : save(observer, control, /*mayGoOn=*/true);
}

/// A copy of params and states from which a thread can save. None if they are too small for a copy to be worth it, or
/// if memory has no room.
std::optional<TensorsCopy> Trainer::copyToSave(TrainObserver& observer) {
  const auto module = session_.module();
  if (together_ || !module) return {};
  int64_t bytes = 0;
  for (ItemKind kind : {ItemKind::param, ItemKind::state})
    for (const Item* item : module->all(kind)) bytes += item->type.bytes();
  if (bytes < options_.backgroundBytes) return {};
  auto none = [&](const std::string& why) {
    if (!std::exchange(toldWhy_, true))
      observer.onNote(fmt::format("note: training waits for each checkpoint: {}", why));
    return std::nullopt;
  };
  const SessionInfo info = session_.info();
  const int64_t all = info.persistentBytes + info.ioBytes + info.arenaBytes;
  if (options_.memory && all + info.persistentBytes > options_.memory)
    return none(fmt::format("a copy of parameters and states takes {}, and of the budget {} are left",
                            sizeText(info.persistentBytes),
                            sizeText(std::max<int64_t>(options_.memory - all, 0))));
  auto copy = session_.copyTensors();
  if (!copy) return none(copy.error().message());
  return std::move(*copy);
}

/// Saves the state after the last step; if `mayGoOn`, in the background where that is possible. Without a folder, it
/// still ends the run if params or states are not finite.
Result<void> Trainer::save(TrainObserver& observer, TrainControl& control, bool mayGoOn) {
  TG_CHECK(endSave(observer, /*wait=*/true));
  saved_ = now();
  if (savedStep_ == state_.step || !summary_.fault.empty()) return {};
  // After a second signal, the checkpoint that was being written is the last one, even if no step is left. Ranks that
  // save together must save once more, since each waits for all.
  if (control.stop && control.atOnce && !together_ && !summary_.checkpoint.empty()) {
    summary_.end = TrainEnd::stopped;
    return {};
  }
  savedStep_ = state_.step;
  if (options_.runDir.empty()) {
    TG_TRY(const std::string found,
           notFinite(session_.tensors(ItemKind::param), session_.tensors(ItemKind::state)));
    if (!found.empty()) endAtFault(fmt::format("{} after step {}", found, state_.step), state_.step);
    return {};
  }
  if (options_.lock) TG_CHECK(options_.lock->check());
  state_.seconds = secondsSoFar();
  std::optional<TensorsCopy> copy;
  if (mayGoOn) copy = copyToSave(observer);
  control.saving = true;
  if (copy) {
    saving_ =
        std::async(std::launch::async, [this, &control, state = state_, copy = std::move(*copy)]() mutable {
          Saved saved = write(std::move(state), std::move(copy.params), std::move(copy.states));
          control.saving = false;
          return saved;
        });
    observer.onWait(now() - saved_);
    return {};
  }
  Saved saved = write(state_, session_.tensors(ItemKind::param), session_.tensors(ItemKind::state));
  control.saving = false;
  observer.onWait(now() - saved_);
  saved_ = now();
  return finish(std::move(saved), observer);
}

/// Whether the run can evaluate and save after this step, and a multiple of `every` has passed since it last could.
bool Trainer::restDue(int64_t step, int64_t every) const {
  return step % grain_ == 0 && TrainerOptions::due(step, every, grain_);
}

/// There is also an evaluation after the last step. It comes before the checkpoint that is due then and includes it.
bool Trainer::evalDue() const {
  return hasEval() && (begun_ >= options_.steps || restDue(begun_, options_.evalEvery));
}

/// Whether an interrupted evaluation of the last step remains, which the options of this part of the run ask for too.
bool Trainer::owesEvaluation() const {
  const bool due = state_.step == options_.steps || restDue(state_.step, options_.evalEvery);
  return state_.evaluationOwed && hasEval() && due;
}

bool Trainer::checkpointDue(TrainControl& control) {
  if (!mayRest()) return false;
  if (control.checkpoint.exchange(false)) return true;
  if (restDue(begun_, options_.checkpointEvery)) return true;
  return options_.checkpointSeconds > 0 && now() - saved_ >= options_.checkpointSeconds;
}

/// The reason, as far as this rank knows, to end the run before the next step.
std::optional<TrainEnd> Trainer::ownEnd(const TrainControl& control) const {
  if (!summary_.fault.empty()) return TrainEnd::notFinite;
  // A second signal ends the run behind the checkpoint that was being written; nothing is saved then.
  const bool atOnce = control.stop && control.atOnce && !options_.ranks && !summary_.checkpoint.empty();
  if (!mayRest()) return atOnce ? std::optional(TrainEnd::stopped) : std::nullopt;
  if (begun_ >= options_.steps) return TrainEnd::done;
  if (control.stop) return TrainEnd::stopped;
  if (options_.maxSeconds > 0 && now() - began_ >= options_.maxSeconds) return TrainEnd::outOfTime;
  return {};
}

/// Called by all ranks together: whether the run ends here, with the most serious reason of any rank. With sharded
/// states it first saves, if a rank has asked for that.
Result<std::optional<TrainEnd>> Trainer::endBefore(TrainObserver& observer, TrainControl& control) {
  constexpr TrainEnd kByWeight[] = {TrainEnd::done, TrainEnd::outOfTime, TrainEnd::stopped,
                                    TrainEnd::notFinite};
  const std::optional<TrainEnd> own = ownEnd(control);
  if (!options_.ranks) return own;
  const auto weight = own ? std::ranges::find(kByWeight, *own) - kByWeight + 1 : 0;
  constexpr char kSave = 's';
  std::string told = std::to_string(weight);
  if (std::exchange(saveAsked_, false)) told += kSave;
  TG_TRY(const std::vector<std::string> all, options_.ranks->allGather(told));
  const char most = (*std::ranges::max_element(all))[0];
  const bool ends = most != '0';
  const bool notFinite = ends && kByWeight[most - '1'] == TrainEnd::notFinite;
  const bool asked = std::ranges::any_of(all, [](const auto& one) { return one.back() == kSave; });
  if (asked && !notFinite) {
    TG_CHECK(settle(0, observer));
    if (summary_.fault.empty()) TG_CHECK(save(observer, control, /*mayGoOn=*/true));
  }
  return ends ? std::optional(kByWeight[most - '1']) : std::nullopt;
}

/// Ends the oldest steps until at most `inFlight` are left, or until a fault ends the run.
Result<void> Trainer::settle(size_t inFlight, TrainObserver& observer) {
  while (session_.stepsInFlight() > inFlight && summary_.fault.empty()) {
    sessionFailed_ = true;
    TG_TRY(StepResult done, session_.endStep());
    sessionFailed_ = false;
    done.step *= options_.stride;
    state_.step = done.step;
    state_.evaluationOwed = false;
    state_.learningRate = done.learningRate;
    summary_.lastLoss = done.loss;
    TG_TRY(std::string fault, faultOf(done));
    if (fault.empty()) {
      last_.push_back(done.loss);
      if (last_.size() > kMeanSteps) last_.pop_front();
      TG_CHECK(observer.onStep(done));
    } else if (options_.onNan == OnNan::skip) {
      TG_CHECK(leaveOut(done, fault, observer));
    } else {
      endAtFault(std::move(fault), state_.step);
    }
  }
  return {};
}

/// Called when the data cannot be read: saves the progress and returns the error. Ranks that save together cannot save
/// here, since the other ranks do not know of the error.
Error Trainer::withoutData(Error why, TrainObserver& observer, TrainControl& control) {
  if (auto ended = settle(0, observer); !ended) return ended.takeError();
  const bool inside = options_.ranks && state_.step % grain_ != 0;
  if (together_ || inside || state_.step == summary_.firstStep || !summary_.fault.empty()) return why;
  if (auto saved = save(observer, control, /*mayGoOn=*/false); !saved)
    why.addNote(nullptr, saved.error().message());
  return why;
}

/// Begins one step, and does what is due by then.
Result<void> Trainer::advance(const Inputs& inputs, TrainObserver& observer, TrainControl& control) {
  TG_CHECK(endSave(observer, /*wait=*/false));
  if (!summary_.fault.empty()) return {};
  TG_CHECK(begin(inputs));
  const bool evaluates = evalDue();
  const bool rests =
      !options_.ahead || options_.onNan == OnNan::skip || evaluates || observer.wantsSession(begun_);
  TG_CHECK(settle(rests ? 0 : 1, observer));
  const bool saves = checkpointDue(control);
  if (saves && !rests) TG_CHECK(settle(0, observer));
  if (evaluates && summary_.fault.empty()) TG_CHECK(evaluate(observer, control));
  if (saves && summary_.fault.empty()) TG_CHECK(saveSoon(observer, control));
  return {};
}

Result<TrainEnd> Trainer::loop(TrainObserver& observer, TrainControl& control) {
  Prefetcher batches(
      "the batch of step", [&](int64_t step, Inputs used) { return feed_.batch(step, std::move(used)); },
      begun_ / options_.stride + 1, options_.steps / options_.stride);
  Inputs inputs;
  std::optional<TrainEnd> end;
  for (;;) {
    TG_TRY(end, endBefore(observer, control));
    if (end) break;
    auto next = batches.next(std::move(inputs));
    if (!next) return withoutData(next.takeError(), observer, control);
    inputs = std::move(*next);
    TG_CHECK(advance(inputs, observer, control));
  }
  TG_CHECK(settle(0, observer));
  return summary_.fault.empty() ? *end : TrainEnd::notFinite;
}

/// Saves the last checkpoint, unless the last step was bad. A run that still owes its last evaluation is not done.
Result<void> Trainer::conclude(TrainObserver& observer, TrainControl& control) {
  if (summary_.end == TrainEnd::notFinite) return {};
  if (state_.step != summary_.firstStep && summary_.fault.empty())
    TG_CHECK(save(observer, control, /*mayGoOn=*/false));
  summary_.evaluationOwed = owesEvaluation();
  if (summary_.evaluationOwed && summary_.end == TrainEnd::done) summary_.end = TrainEnd::stopped;
  if (!summary_.fault.empty()) summary_.end = TrainEnd::notFinite;
  return {};
}

Result<TrainSummary> Trainer::run(TrainObserver& observer, TrainControl& control) {
  began_ = saved_ = now();
  before_ = state_.seconds;
  summary_ = {};
  summary_.firstStep = state_.step;
  begun_ = state_.step;
  TG_CHECK(countSteps());
  if (session_.stepsInFlight()) return fail("the session has steps in flight; end them before it is trained");
  TG_CHECK(prepare());
  TG_CHECK(makeUp(observer, control));
  auto end = loop(observer, control);
  // Drop the steps that were begun after a step or an error that ends the run.
  while (session_.stepsInFlight()) (void)session_.endStep();
  // Whatever ends the run, a checkpoint that is being written is completed first.
  auto written = endSave(observer, /*wait=*/true);
  if (!end) return end.takeError();
  TG_CHECK(written);
  summary_.end = summary_.fault.empty() ? *end : TrainEnd::notFinite;
  if (summary_.end == TrainEnd::notFinite) TG_CHECK(lookAtFault());
  TG_CHECK(conclude(observer, control));
  summary_.step = state_.step;
  summary_.seconds = now() - began_;
  summary_.meanOf = static_cast<int64_t>(last_.size());
  for (double loss : last_) summary_.meanLoss += loss / static_cast<double>(last_.size());
  return summary_;
}

}  // namespace tg
