// SPDX-License-Identifier: Apache-2.0
// The training loop: batches, steps, evaluation, checkpoints, and the ways a run ends.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <future>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/session.h"
#include "runtime/train/checkpoint.h"
#include "runtime/train/evaluation.h"
#include "runtime/train/feed.h"
#include "runtime/train/run_dir.h"

namespace tg {

/// What to do if a step fails the check below: stop ends the run and saves nothing of the step; skip restores params
/// and states as they were before it and continues with the next batch.
///
/// A step is good if its loss and the norm of its gradients are finite. With `skip`, all params and states after the
/// step are checked instead of the norm; this tells for each single batch whether its update can stay. A module that
/// scales its loss (mixed-precision) itself leaves out updates from gradients that are not finite, so a norm that is
/// not finite in a few such steps is no fault.
enum class OnNan : uint8_t { stop, skip };

/// The run ends after this many updates in a row that a module leaves out, one more than a loss scale can be halved, and after
/// this many steps in a row that are undone.
constexpr int64_t kMostLeftOut = 25;

struct TrainerOptions {
  int64_t steps = 100;  ///< of the whole run, including its earlier parts
  /// The number of the run's steps for which one step of the session counts. All steps in these options and in reports
  /// are the run's. `steps` and the state's step must be multiples of it.
  int64_t stride = 1;
  int64_t evalEvery = 0;         ///< steps between evaluations; 0: only after the last step
  int64_t evalBatches = 0;       ///< of each evaluation; 0 means all
  int64_t checkpointEvery = 0;   ///< in steps; 0 means not by steps
  double checkpointSeconds = 0;  ///< of wall clock; 0 means not by time
  int64_t keepLast = 0;          ///< checkpoints kept besides the best; 0 keeps all
  bool keepBest = false;         ///< also save and keep the checkpoint with the least evaluation loss
  OnNan onNan = OnNan::stop;
  /// Begin each step before the last one is waited for. The interpreter runs a step when it is begun, so it gains nothing
  /// by that, and reports each step one step late.
  bool ahead = true;
  double maxSeconds = 0;    ///< for this part of the run; 0 means no limit
  std::string runDir = {};  ///< where checkpoints are saved; "" saves none
  /// The other ranks of a job, which train the same session on their rows; null for a single rank. Only rank 0
  /// evaluates and saves. If one rank is asked to stop, all stop after the same step.
  collective::Engine* ranks = nullptr;
  const RunLock* lock = nullptr;  ///< of runDir, which must still exist when something is saved
  /// If params and states take at least this many bytes, a thread writes checkpoints during further steps, from a copy
  /// in device memory. Smaller ones, and the one after the last step, are written before training goes on.
  int64_t backgroundBytes = int64_t(16) << 20;
  int64_t memory = 0;  ///< most bytes that buffers may take, including that copy; 0 means no limit

  /// Whether the run ends, evaluates and saves only after whole updates, so that `steps` must end one. Inside an update several
  /// ranks have gradients of their own, which a checkpoint does not hold; OnNan::skip undoes a bad update as a whole.
  bool wholeUpdates() const { return ranks || onNan == OnNan::skip; }
  /// Whether one of the last `count` steps up to this one is a multiple of `every`; never if `every` is 0.
  static bool due(int64_t step, int64_t every, int64_t count) {
    return every > 0 && step / every != (step - count) / every;
  }
  /// Whether something that is done every `every` steps is due after this step of the session.
  bool due(int64_t step, int64_t every) const { return due(step, every, stride); }
};

/// Requests to a running trainer, which may come from a signal handler.
struct TrainControl {
  std::atomic<bool> stop = false;        ///< finish the steps in flight, save and return
  std::atomic<bool> checkpoint = false;  ///< save after the steps in flight, and continue
  /// Set by the trainer while a checkpoint is being written, even in the background.
  std::atomic<bool> saving = false;
  std::atomic<bool> atOnce = false;  ///< with stop: no further checkpoint after the one being written
};

struct EvalResult : Evaluation {
  int64_t step = 0;
  bool best = false;
  std::optional<double> bestLoss = {};  ///< none if no loss was finite
  int64_t bestStep = 0;
};

/// Receives events, on the trainer's thread. When it learns of a step, the device may already be working on the next
/// one.
class TrainObserver {
 public:
  virtual ~TrainObserver() = default;
  /// Whether `onStep` needs the session as this step leaves it. The next step then begins only after that.
  virtual bool wantsSession(int64_t /*step*/) const { return false; }
  virtual Result<void> onStep(const StepResult&) { return {}; }
  virtual Result<void> onEval(const EvalResult&) { return {}; }
  /// `why` says what was not finite, such as `the loss is nan at step 7`; `updated`: an update was made all the same, by the
  /// gradients of other batches.
  virtual void onSkip(const StepResult&, const std::string& /*why*/, bool /*updated*/) {}
  /// A checkpoint of this step is complete. Later steps may already have been reported.
  virtual void onSave(const std::string& /*path*/, int64_t /*step*/) {}
  /// The loop has waited this long for a checkpoint. The time belongs to no step.
  virtual void onWait(double /*seconds*/) {}
  /// A note for the user, given once.
  virtual void onNote(const std::string& /*text*/) {}
};

enum class TrainEnd : uint8_t { done, stopped, outOfTime, notFinite };

struct TrainSummary {
  TrainEnd end = TrainEnd::done;
  int64_t firstStep = 0, step = 0;  ///< steps done before this part of the run, and now
  double seconds = 0;               ///< of this part of the run
  double meanLoss = 0;              ///< of the last 20 steps
  int64_t meanOf = 0;               ///< the number of these steps
  double lastLoss = 0;
  int64_t leftOut = 0;  ///< steps that were undone
  std::string fault;    ///< if the run ends as notFinite: what is not finite, and in which step
  /// More about the fault: an input of that step that is not finite, a tensor that the step has spoiled.
  std::vector<std::string> faultNotes;
  bool evaluationOwed = false;  ///< a stop interrupted the evaluation of the last step
  std::string checkpoint;       ///< the newest one written by this part; "" if none was
  int64_t checkpointStep = 0;   ///< its step
};

/// Trains a session on a feed until a number of steps, a time or a request ends the run. With equal module, feed, seed,
/// device and driver the losses are equal bit for bit, however often the run was stopped and resumed.
class Trainer {
 public:
  /// `state` is the state to continue from: that of a checkpoint whose tensors the session already holds, or a new one
  /// with step 0 and the run's hashes. All arguments must outlive the trainer.
  Trainer(Session& session, const Feed& feed, TrainerOptions options, TrainState state)
      : session_(session), feed_(feed), options_(std::move(options)), state_(std::move(state)) {}

  /// Runs the steps. Errors: steps in flight, errors of the feed, the device, a save or an observer. After an error,
  /// earlier checkpoints stay; after an error of the feed, the progress until then is saved too, unless states are
  /// sharded. If a bad step ends the run, the session may have done one step more than the summary says.
  Result<TrainSummary> run(TrainObserver& observer, TrainControl& control);

  const TrainState& state() const { return state_; }
  /// Seconds of training over all parts of the run.
  double secondsSoFar() const;
  /// Whether the last error came from a call of the session, and thus from the device if there is one.
  bool sessionFailed() const { return sessionFailed_; }
  /// The first element of a parameter that is not finite, unless the parameter was so from the start; or "".
  Result<std::string> notFiniteParam() { return notFinite(session_.tensors(ItemKind::param), {}); }

 private:
  struct Snapshot {
    NamedArrays params, states;
  };
  Result<void> begin(const Inputs& inputs);
  Result<void> countSteps();
  Result<void> prepare();
  Result<void> settle(size_t inFlight, TrainObserver& observer);
  Result<TrainEnd> loop(TrainObserver& observer, TrainControl& control);
  Result<std::string> faultOf(const StepResult& step);
  Result<void> leaveOut(const StepResult& step, const std::string& why, TrainObserver& observer);
  Result<Snapshot> snapshot();
  Result<std::string> faultIn(const Snapshot& taken);
  Result<void> restore(const Snapshot& taken);
  void endUpdate();
  /// What was found while tensors were read.
  struct Watch {
    std::string found;    ///< the first element that is not finite
    bool failed = false;  ///< the session could not be read
  };
  /// The outcome of writing a checkpoint.
  struct Saved {
    int64_t step = 0;
    Result<std::string> path = std::string();
    Watch watch;
  };
  TensorSource watched(ItemKind kind, TensorSource source, Watch& watch) const;
  Result<std::string> notFinite(const TensorSource& params, const TensorSource& states);
  void endAtFault(std::string fault, int64_t step);
  Result<void> lookAtFault();
  std::string notFiniteInput(int64_t step) const;
  std::optional<TrainEnd> ownEnd(const TrainControl& control) const;
  Result<std::optional<TrainEnd>> endBefore(TrainObserver& observer, TrainControl& control);
  Error withoutData(Error why, TrainObserver& observer, TrainControl& control);
  Result<void> advance(const Inputs& inputs, TrainObserver& observer, TrainControl& control);
  Result<void> conclude(TrainObserver& observer, TrainControl& control);
  Result<void> evaluate(TrainObserver& observer, TrainControl& control);
  Result<void> makeUp(TrainObserver& observer, TrainControl& control);
  Result<void> saveSoon(TrainObserver& observer, TrainControl& control);
  Result<void> save(TrainObserver& observer, TrainControl& control, bool mayGoOn);
  Saved write(TrainState state, TensorSource params, TensorSource states) const;
  Result<void> finish(Saved saved, TrainObserver& observer);
  Result<void> endSave(TrainObserver& observer, bool wait);
  std::optional<TensorsCopy> copyToSave(TrainObserver& observer);
  bool mayRest() const { return begun_ % grain_ == 0; }
  bool restDue(int64_t step, int64_t every) const;
  bool checkpointDue(TrainControl& control);
  bool evalDue() const;
  bool owesEvaluation() const;
  bool hasEval() const { return feed_.evalBatches() > 0 && (!options_.ranks || options_.ranks->rank() == 0); }

  Session& session_;
  const Feed& feed_;
  TrainerOptions options_;
  TrainState state_;
  TrainSummary summary_;
  std::deque<double> last_;
  /// With OnNan::skip: params and states before the first batch of the current update; none at that batch.
  std::optional<Snapshot> beforeUpdate_;
  /// With OnNan::skip: the current update has batches of an earlier part of the run.
  bool resumedInside_ = false;
  Snapshot good_;  ///< with OnNan::skip: params and states after the last good step
  /// Params and states that were not finite before the first step, such as masks; with a description of an element.
  std::map<std::string, std::string> given_;
  bool together_ = false;         ///< states are sharded: all ranks save together
  bool saveAsked_ = false;        ///< by this rank, for all ranks to save together
  bool scalesLoss_ = false;       ///< the module leaves out updates by gradients that are not finite
  int64_t grain_ = 1;             ///< after multiples of these steps the run may end, evaluate and save
  int64_t begun_ = 0;             ///< the newest step begun; the state has the newest step reported
  double began_ = 0, saved_ = 0;  ///< seconds of the steady clock
  double before_ = 0;             ///< seconds of the run's earlier parts
  int64_t savedStep_ = -1;
  bool sessionFailed_ = false;
  bool toldWhy_ = false;  ///< has already said why checkpoints are not written in the background
  /// The checkpoint being written; the last member, so that its thread ends first.
  std::future<Saved> saving_;
};

}  // namespace tg
