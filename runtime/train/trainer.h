// SPDX-License-Identifier: Apache-2.0
// The training loop: batches, steps, evaluation, checkpoints, and the ways a run ends.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <future>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/session.h"
#include "runtime/train/checkpoint.h"
#include "runtime/train/feed.h"
#include "runtime/train/run_lock.h"

namespace tg {

/// What a step that is not good does: end the run with nothing of that step saved, or take params and states
/// back to what they were and go on with the next batch.
///
/// A step is good when its loss and the norm of its gradients are finite. With `skip`, all params and states
/// after it are looked at instead of the norm, which says of one batch alone whether its update can stay.
/// Where the module scales its loss (mixed-precision), it leaves out an update of gradients that are not
/// finite itself, and the norm of a few such steps is no fault.
enum class OnNan : uint8_t { stop, skip };

/// So many steps in a row without a good update end the run: one more than a loss scale can be halved.
constexpr int64_t kMostLeftOut = 25;

struct TrainerOptions {
  int64_t steps = 100;  ///< in all, those of earlier parts of the run included
  /// What a step of the session counts in the run, whose steps, here and in what is told, are these. It divides `steps`
  /// and the state's step.
  int64_t stride = 1;
  int64_t evalEvery = 0;         ///< steps between evaluations; 0: only after the last step
  int64_t evalBatches = 0;       ///< of each evaluation; 0 is all there are
  int64_t checkpointEvery = 0;   ///< steps; 0 is none by steps
  double checkpointSeconds = 0;  ///< of wall clock; 0 is none by time
  int64_t keepLast = 0;          ///< checkpoints kept besides the best; 0 keeps all
  bool keepBest = false;         ///< save and keep the checkpoint with the least evaluation loss
  OnNan onNan = OnNan::stop;
  double maxSeconds = 0;         ///< of this part of the run; 0 is no limit
  bool overfitOneBatch = false;  ///< every step takes the batch of step 1
  std::string runDir = {};       ///< where checkpoints go; "" saves nothing
  /// The other ranks of a job, which train the same session on their rows. Rank 0 alone evaluates and saves; when one
  /// is asked to stop, all do after the same step. Null: there is one alone.
  collective::Engine* ranks = nullptr;
  const RunLock* lock = nullptr;  ///< of that folder, which must still be there when something is saved
  /// Params and states of so many bytes or more are written by a thread while steps go on, from a copy in the memory
  /// of the device; fewer, and those of the last step, before the next one.
  int64_t backgroundBytes = int64_t(16) << 20;
  int64_t memory = 0;  ///< bytes that buffers may take together, that copy included; 0 is no bound

  /// Whether this is the step after which something is done that is done every so many; 0 is never.
  bool due(int64_t step, int64_t every) const { return every > 0 && step / every != (step - stride) / every; }
};

/// What others may ask of a running trainer, also from a signal handler.
struct TrainControl {
  std::atomic<bool> stop = false;        ///< finish the steps in flight, save, return
  std::atomic<bool> checkpoint = false;  ///< save after the steps in flight and go on
  std::atomic<bool> saving =
      false;  ///< told by the trainer: a checkpoint is being written, while steps go on or not
  std::atomic<bool> atOnce = false;  ///< with stop: no checkpoint behind the one that is being written
};

struct EvalResult {
  int64_t step = 0;
  double loss = 0;  ///< mean over the batches
  bool best = false;
  std::optional<double> bestLoss;  ///< none while every loss was no finite number
  int64_t bestStep = 0;
};

/// Hears of what happens, on the trainer's thread. When it hears of a step, the device may be working on the
/// next one already.
class TrainObserver {
 public:
  virtual ~TrainObserver() = default;
  /// Whether `onStep` wants the session as this step leaves it: then the next one begins after that.
  virtual bool wantsSession(int64_t /*step*/) const { return false; }
  virtual Result<void> onStep(const StepResult&) { return {}; }
  virtual Result<void> onEval(const EvalResult&) { return {}; }
  /// `why` is what was not finite, as `the loss is nan at step 7`.
  virtual void onSkip(const StepResult&, const std::string& /*why*/) {}
  /// A checkpoint of that step is whole. Later steps may have been heard of.
  virtual void onSave(const std::string& /*path*/, int64_t /*step*/) {}
  /// The loop has waited for a checkpoint, in all or in part, which is no step's time.
  virtual void onWait(double /*seconds*/) {}
  /// What a user should know, once.
  virtual void onNote(const std::string& /*text*/) {}
};

enum class TrainEnd : uint8_t { done, stopped, outOfTime, notFinite };

struct TrainSummary {
  TrainEnd end = TrainEnd::done;
  int64_t firstStep = 0, step = 0;  ///< steps done before this part, and now
  double seconds = 0;               ///< of this part
  double meanLoss = 0;              ///< of the last 20 steps
  int64_t meanOf = 0;               ///< how many these were
  double lastLoss = 0;
  int64_t leftOut = 0;  ///< steps that were taken back
  std::string fault;    ///< where the run ends as notFinite: what is not finite, and of which step
  /// What else is known of it: the input of that step that is not finite, a tensor it has spoilt.
  std::vector<std::string> faultNotes;
  bool evaluationOwed = false;  ///< a stop broke off the evaluation of the last step
  std::string checkpoint;       ///< the newest one written by this part; "" when none was
  int64_t checkpointStep = 0;   ///< its step
};

/// Trains a session on a feed until a step count, a time or a request ends it. Equal module, feed, seed,
/// device and driver give equal losses bit for bit, however often the run was stopped and resumed.
class Trainer {
 public:
  /// `state` is the one to go on from: that of a checkpoint whose tensors the session already holds, or a new
  /// one with step 0 and the run's hashes. All must outlive the trainer.
  Trainer(Session& session, const Feed& feed, TrainerOptions options, TrainState state)
      : session_(session), feed_(feed), options_(std::move(options)), state_(std::move(state)) {}

  /// Errors: steps in flight, of the feed, the device, a save, an observer. After one, what was saved before
  /// stays; after one of the feed, what was learned until then is saved too, unless states are sharded. Where a
  /// step that is not good ends the run, the session may have done one step more than the summary says.
  Result<TrainSummary> run(TrainObserver& observer, TrainControl& control);

  const TrainState& state() const { return state_; }
  /// Seconds of training over all parts of the run.
  double secondsSoFar() const;
  /// Whether the last error came from a call of the session: the device's, when there is one.
  bool sessionFailed() const { return sessionFailed_; }

 private:
  struct Snapshot {
    NamedArrays params, states;
  };
  Result<void> begin(const Inputs& inputs);
  Result<void> checkStride() const;
  Result<void> prepare();
  Result<void> settle(size_t inFlight, TrainObserver& observer);
  Result<TrainEnd> loop(TrainObserver& observer, TrainControl& control);
  Result<std::string> faultOf(const StepResult& step);
  Result<void> leaveOut(const StepResult& step, const std::string& why, TrainObserver& observer);
  Result<Snapshot> snapshot();
  /// What reading tensors has met.
  struct Watch {
    std::string found;    ///< the first element that is not finite
    bool failed = false;  ///< the session could not be read
  };
  /// A checkpoint that was written or not.
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
  Snapshot good_;                ///< with OnNan::skip: params and states after the last good step
  std::set<std::string> given_;  ///< params that were not finite before the first step, such as masks
  bool together_ = false;        ///< states are sharded: all ranks save together
  bool saveAsked_ = false;       ///< by this rank
  bool scalesLoss_ = false;      ///< the module leaves out updates by gradients that are not finite
  int64_t begun_ = 0;            ///< the newest step that was begun; that of the state is the newest heard of
  double began_ = 0, saved_ = 0;  ///< seconds of the steady clock
  double before_ = 0;             ///< seconds of the run's earlier parts
  int64_t savedStep_ = -1;
  bool sessionFailed_ = false;
  bool toldWhy_ = false;       ///< why checkpoints are not written while steps go on
  std::future<Saved> saving_;  ///< the one that is; the last member, so that its thread ends first
};

}  // namespace tg
