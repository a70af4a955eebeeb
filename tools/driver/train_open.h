// From the command line of tg-run train to everything a trainer needs, a fresh run's or a resumed one's.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/train/feed.h"
#include "runtime/train/trainer.h"
#include "tools/driver/run_setup.h"
#include "tools/driver/train_flags.h"

namespace tg {

struct OpenTraining {
  OpenModel model;
  std::unique_ptr<Feed> feed;
  TrainerOptions options;
  TrainState state;                ///< to go on from; step 0 for a fresh run
  std::string sourceText;          ///< the module before any pass, printed
  std::vector<std::string> notes;  ///< what to say before the header
  std::string schedule;            ///< of the learning rate, as the module spells it; "" for none
  bool resumed = false;
};

/// Flags that make no sense together, and outputs that would take the place of other files.
Result<void> checkTrainFlags(const ModelFlags& model, const TrainFlags& flags);

/// Where `--resume` points: "" when nothing is to be resumed (also `auto` without a run to go on with).
Result<std::string> resumedRun(const TrainFlags& flags);

/// Checks everything and compiles; writes nothing. 0, or an exit code after printing why. `resume` is what
/// `resumedRun` said.
int openTraining(const CLI::App& app, ModelFlags& model, const TrainFlags& flags, const std::string& resume,
                 OpenTraining& out);

/// The folder of a fresh run, made with model.tgir, module.spirv.tgir, config.toml and env.json in it.
Result<void> makeRunDir(const CLI::App& app, const std::string& command, const OpenTraining& training);

/// Keeps a second process out of a run's folder while it lives.
class RunLock {
 public:
  static Result<RunLock> take(const std::string& runDir);
  RunLock(RunLock&& other) noexcept : descriptor_(other.descriptor_) { other.descriptor_ = -1; }
  RunLock& operator=(RunLock&&) = delete;
  ~RunLock();

 private:
  explicit RunLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

}  // namespace tg
