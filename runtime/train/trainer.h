// The training loop: batches, steps, evaluation, checkpoints, and the ways a run ends.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/session.h"
#include "runtime/train/checkpoint.h"
#include "runtime/train/feed.h"

namespace tg {

/// What a loss that is no finite number does: end the run with nothing of that step saved, or take params and
/// states back to what they were and go on with the next batch.
enum class OnNan : uint8_t { stop, skip };

struct TrainerOptions {
  int64_t steps = 100;           ///< in all, those of earlier parts of the run included
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
};

/// What others may ask of a running trainer, also from a signal handler.
struct TrainControl {
  std::atomic<bool> stop = false;        ///< finish the steps under way, save, return
  std::atomic<bool> checkpoint = false;  ///< save after the steps under way and go on
};

struct EvalResult {
  int64_t step = 0;
  double loss = 0;  ///< mean over the batches
  bool best = false;
  double bestLoss = 0;
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
  virtual void onSkip(const StepResult&) {}
  virtual void onSave(const std::string& /*path*/, int64_t /*step*/) {}
};

enum class TrainEnd : uint8_t { done, stopped, outOfTime, notFinite };

struct TrainSummary {
  TrainEnd end = TrainEnd::done;
  int64_t firstStep = 0, step = 0;  ///< steps done before this part, and now
  double seconds = 0;               ///< of this part
  double meanLoss = 0;              ///< of the last 20 steps
  int64_t meanOf = 0;               ///< how many these were
  double lastLoss = 0;
  std::string checkpoint;  ///< the newest one written by this part; "" when none was
};

/// Trains a session on a feed until a step count, a time or a request ends it. Equal module, feed, seed,
/// device and driver give equal losses bit for bit, however often the run was stopped and resumed.
class Trainer {
 public:
  /// `state` is the one to go on from: that of a checkpoint whose tensors the session already holds, or a new
  /// one with step 0 and the run's hashes. All must outlive the trainer.
  Trainer(Session& session, const Feed& feed, TrainerOptions options, TrainState state)
      : session_(session), feed_(feed), options_(std::move(options)), state_(std::move(state)) {}

  /// Errors: steps under way, of the feed, the device, a save, an observer. After one, what was saved before
  /// stays. Where a loss that is no finite number ends the run, the session may have done one step more than
  /// the summary says.
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
  Result<std::optional<TrainEnd>> settle(size_t underWay, const Snapshot& before, TrainObserver& observer);
  Result<std::optional<TrainEnd>> loop(TrainObserver& observer, TrainControl& control);
  Result<bool> recover(const StepResult& step, const Snapshot& before, TrainObserver& observer);
  Result<Snapshot> snapshot();
  std::optional<TrainEnd> endBefore(const TrainControl& control) const;
  Result<std::optional<TrainEnd>> advance(const Inputs& inputs, TrainObserver& observer,
                                          TrainControl& control);
  Result<void> conclude(TrainObserver& observer);
  Result<void> evaluate(TrainObserver& observer);
  Result<void> save(TrainObserver& observer);
  bool checkpointDue(TrainControl& control);
  bool evalDue() const;
  bool hasEval() const { return feed_.evalBatches() > 0; }

  Session& session_;
  const Feed& feed_;
  TrainerOptions options_;
  TrainState state_;
  TrainSummary summary_;
  std::deque<double> last_;
  int64_t begun_ = 0;  ///< the newest step that was begun; that of the state is the newest heard of
  double began_ = 0, saved_ = 0;  ///< seconds of the steady clock
  double before_ = 0;             ///< seconds of the run's earlier parts
  int64_t savedStep_ = -1, evaluatedStep_ = -1;
  bool sessionFailed_ = false;
};

}  // namespace tg
