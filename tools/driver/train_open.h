// SPDX-License-Identifier: Apache-2.0
// From the command line of tg-run train to everything a trainer needs, a fresh run's or a resumed one's.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/train/feed.h"
#include "runtime/train/run_lock.h"
#include "runtime/train/sampler.h"
#include "runtime/train/trainer.h"
#include "tools/driver/run_setup.h"
#include "tools/driver/train_flags.h"

namespace tg {

struct OpenTraining {
  OpenModel model;
  std::unique_ptr<Feed> feed;
  std::unique_ptr<Sampler> sampler;  ///< where texts are wanted
  TrainerOptions options;
  TrainState state;                ///< to go on from; step 0 for a fresh run
  std::string sourceText;          ///< the module before any pass, printed
  std::vector<std::string> notes;  ///< what to say before the header
  std::string schedule;            ///< of the learning rate, as the module spells it; "" for none
  int64_t microBatch = 0;          ///< rows of the batch that run at once, where --memory chose them
  bool resumed = false;
  int64_t resumedStep = 0;                   ///< as the checkpoint counts it
  bool stepsTyped = false;                   ///< where it is resumed: how long to train is said anew
  std::optional<OpenCheckpoint> checkpoint;  ///< to go on from; openTraining uses it up
  std::optional<RunLock> lock;               ///< of the run's folder
};

/// Flags that make no sense together, and outputs that would take the place of other files.
Result<void> checkTrainFlags(const ModelFlags& model, const TrainFlags& flags);

/// Checks everything and compiles; writes nothing. 0, or an exit code after printing why. `run` is the folder
/// that is gone on with, from the checkpoint in `out`.
int openTraining(const CLI::App& app, ModelFlags& model, const TrainFlags& flags, const std::string& run,
                 OpenTraining& out);

/// The options a run was started with, into fresh flags. Errors also where one of the run's files is not as
/// it was written.
Result<void> readRunConfig(const std::string& run, ModelFlags& model, TrainFlags& flags);

/// The training and evaluation data that the flags name, for the functions of the source module.
Result<std::unique_ptr<Feed>> openData(const Module& source, uint64_t seed, const TrainFlags& flags,
                                       const std::optional<std::string>& vocabulary);

/// A module without @eval that draws no random numbers evaluates by its own @train, as it is before its
/// gradient; `notes` says so.
Result<void> ensureEval(Module& module, std::vector<std::string>& notes);

/// Like loadModule, but FILE may be a run or one of its checkpoints: that is the source the run was started
/// with, and `model.pipeline`, unless given, what made it learn.
int loadSource(const CLI::App& app, ModelFlags& model, std::unique_ptr<Module>& out);

}  // namespace tg
