#include "runtime/train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include <fmt/format.h>

#include "runtime/train/evaluation.h"
#include "runtime/train/prefetch.h"

namespace tg {

namespace {

constexpr size_t kMeanSteps = 20;  // the loss reported at the end is the mean over these

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

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
  TG_TRY(begun_, session_.beginStep(inputs));
  sessionFailed_ = false;
  return {};
}

/// Whether the run may go on after a loss that is no finite number.
Result<bool> Trainer::recover(const StepResult& step, const Snapshot& before, TrainObserver& observer) {
  if (options_.onNan == OnNan::stop) return false;
  TG_CHECK(session_.uploadParams(before.params));
  TG_CHECK(session_.uploadStates(before.states));
  observer.onSkip(step);
  return true;
}

Result<void> Trainer::evaluate(TrainObserver& observer) {
  EvalResult result;
  TG_TRY(result.loss, evaluateLoss(session_, feed_, options_.evalBatches, sessionFailed_));
  result.step = evaluatedStep_ = state_.step;
  state_.valLoss = result.loss;
  result.best = !state_.bestValLoss || result.loss < *state_.bestValLoss;
  if (result.best) {
    state_.bestValLoss = result.loss;
    state_.bestStep = state_.step;
  }
  result.bestLoss = *state_.bestValLoss;
  result.bestStep = state_.bestStep;
  TG_CHECK(observer.onEval(result));
  if (result.best && options_.keepBest) TG_CHECK(save(observer));
  return {};
}

Result<void> Trainer::save(TrainObserver& observer) {
  saved_ = now();
  if (options_.runDir.empty() || savedStep_ == state_.step) return {};
  TG_TRY(Snapshot tensors, snapshot());
  Checkpoint checkpoint;
  state_.seconds = secondsSoFar();
  checkpoint.state = state_;
  checkpoint.params = std::move(tensors.params);
  checkpoint.states = std::move(tensors.states);
  TG_TRY(summary_.checkpoint, saveCheckpoint(options_.runDir, checkpoint));
  savedStep_ = state_.step;
  std::vector<int64_t> keep;
  if (options_.keepBest && state_.bestValLoss) keep.push_back(state_.bestStep);
  // Pruning reads what it keeps, so it is not done where nothing could be removed.
  if (options_.keepLast) TG_CHECK(pruneCheckpoints(options_.runDir, options_.keepLast, keep));
  observer.onSave(summary_.checkpoint, state_.step);
  saved_ = now();
  return {};
}

bool Trainer::evalDue() const { return hasEval() && options_.evalEvery && begun_ % options_.evalEvery == 0; }

bool Trainer::checkpointDue(TrainControl& control) {
  if (control.checkpoint.exchange(false)) return true;
  if (options_.checkpointEvery && begun_ % options_.checkpointEvery == 0) return true;
  return options_.checkpointSeconds > 0 && now() - saved_ >= options_.checkpointSeconds;
}

/// Why the run ends before its next step, if it does.
std::optional<TrainEnd> Trainer::endBefore(const TrainControl& control) const {
  if (begun_ >= options_.steps) return TrainEnd::done;
  if (control.stop) return TrainEnd::stopped;
  if (options_.maxSeconds > 0 && now() - began_ >= options_.maxSeconds) return TrainEnd::outOfTime;
  return {};
}

/// Hears of the oldest steps until only so many are under way; the end where a loss ends the run.
Result<std::optional<TrainEnd>> Trainer::settle(size_t underWay, const Snapshot& before,
                                                TrainObserver& observer) {
  while (session_.stepsUnderWay() > underWay) {
    sessionFailed_ = true;
    TG_TRY(StepResult done, session_.endStep());
    sessionFailed_ = false;
    state_.step = done.step;
    state_.learningRate = done.learningRate;
    summary_.lastLoss = done.loss;
    if (std::isfinite(done.loss)) {
      last_.push_back(done.loss);
      if (last_.size() > kMeanSteps) last_.pop_front();
      TG_CHECK(observer.onStep(done));
      continue;
    }
    TG_TRY(bool goesOn, recover(done, before, observer));
    if (goesOn) continue;
    return std::optional(TrainEnd::notFinite);
  }
  return std::optional<TrainEnd>();
}

/// One step begun, and what is due by then; the end where a loss ends the run.
Result<std::optional<TrainEnd>> Trainer::advance(const Inputs& inputs, TrainObserver& observer,
                                                 TrainControl& control) {
  const bool skips = options_.onNan == OnNan::skip;
  Snapshot before;
  if (skips) {
    TG_TRY(before, snapshot());
  }
  TG_CHECK(begin(inputs));
  const bool evaluates = evalDue();
  const bool rests = skips || evaluates || observer.wantsSession(begun_);
  TG_TRY(std::optional<TrainEnd> end, settle(rests ? 0 : 1, before, observer));
  if (end) return end;
  const bool saves = checkpointDue(control);
  if (saves && !rests) {
    TG_TRY(end, settle(0, before, observer));
    if (end) return end;
  }
  if (evaluates) TG_CHECK(evaluate(observer));
  if (saves) TG_CHECK(save(observer));
  return end;
}

Result<std::optional<TrainEnd>> Trainer::loop(TrainObserver& observer, TrainControl& control) {
  Inputs inputs;
  if (options_.overfitOneBatch) {
    TG_TRY(inputs, feed_.batch(1));
  }
  Prefetcher batches(feed_, begun_ + 1, options_.overfitOneBatch ? begun_ : options_.steps);
  std::optional<TrainEnd> end;
  while (!(end = endBefore(control))) {
    if (!options_.overfitOneBatch) {
      auto next = batches.next();
      if (!next) {
        TG_CHECK(settle(0, {}, observer));
        return next.takeError();
      }
      inputs = std::move(*next);
    }
    TG_TRY(end, advance(inputs, observer, control));
    if (end) return end;
  }
  TG_TRY(std::optional<TrainEnd> sooner, settle(0, {}, observer));
  return sooner ? sooner : end;
}

/// The last evaluation and checkpoint. Parameters that a loss without a value has spoilt are not saved.
Result<void> Trainer::conclude(TrainObserver& observer) {
  if (summary_.end == TrainEnd::notFinite || state_.step == summary_.firstStep) return {};
  if (summary_.end == TrainEnd::done && hasEval() && evaluatedStep_ != state_.step)
    TG_CHECK(evaluate(observer));
  return save(observer);
}

Result<TrainSummary> Trainer::run(TrainObserver& observer, TrainControl& control) {
  began_ = saved_ = now();
  before_ = state_.seconds;
  summary_ = {};
  summary_.firstStep = state_.step;
  begun_ = state_.step;
  if (session_.stepsUnderWay()) return fail("the session has steps under way; end them before it is trained");
  auto end = loop(observer, control);
  // What was begun since a loss or an error that ends the run is nobody's.
  while (session_.stepsUnderWay()) (void)session_.endStep();
  if (!end) return end.takeError();
  summary_.end = **end;
  TG_CHECK(conclude(observer));
  summary_.step = state_.step;
  summary_.seconds = now() - began_;
  summary_.meanOf = static_cast<int64_t>(last_.size());
  for (double loss : last_) summary_.meanLoss += loss / static_cast<double>(last_.size());
  return summary_;
}

}  // namespace tg
