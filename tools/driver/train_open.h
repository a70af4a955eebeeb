// SPDX-License-Identifier: Apache-2.0
// Turns the command line of tg-run train into everything that a trainer needs, for a new run or a resumed one.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/train/feed.h"
#include "runtime/train/run_dir.h"
#include "runtime/train/sampler.h"
#include "runtime/train/trainer.h"
#include "tools/driver/run_setup.h"
#include "tools/driver/train_flags.h"

namespace tg {

struct OpenTraining {
  OpenModel model;
  std::unique_ptr<Feed> feed;
  std::unique_ptr<Sampler> sampler;  ///< null if no texts are sampled
  TrainerOptions options;
  TrainState state;                ///< to continue from; step 0 for a new run
  std::string sourceText;          ///< the text of the module before any pass
  std::vector<std::string> notes;  ///< printed before the header
  std::string schedule;            ///< of the learning rate, as the module writes it; "" if none
  size_t rates = 0;                ///< different schedules in it
  int64_t microBatch = 0;          ///< rows to run at once, if --memory chose them
  bool resumed = false;
  int64_t resumedStep = 0;                   ///< as counted by the checkpoint
  bool stepsTyped = false;                   ///< a resumed run was given a new length
  std::optional<OpenCheckpoint> checkpoint;  ///< to resume from; openTraining consumes it
  std::optional<RunLock> lock;               ///< of the run's folder
};

/// Checks for flags that exclude each other, and for outputs that would overwrite other files.
Result<void> checkTrainFlags(const ModelFlags& model, const TrainFlags& flags);

/// Checks everything and compiles; writes nothing. `run` is the folder of a run to resume, from the checkpoint in `out`.
Result<void> openTraining(const CLI::App& app, ModelFlags& model, const TrainFlags& flags,
                          const std::string& run, OpenTraining& out);

/// Reads the options with which a run was started into default flags. An error also if one of the run's files has been
/// changed.
Result<void> readRunConfig(const std::string& run, ModelFlags& model, TrainFlags& flags);

/// The training and evaluation data that the flags name, for the functions of the source module.
Result<std::unique_ptr<Feed>> openData(const Module& source, uint64_t seed, const TrainFlags& flags,
                                       const std::optional<std::string>& vocabulary, bool evalOnly = false);

/// If a module lacks @eval and draws no random numbers, adds one: its own @train, as it is before gradients are added.
/// A note says so.
Result<void> ensureEval(Module& module, std::vector<std::string>& notes);

/// Like loadModule, but FILE may also be a run or one of its checkpoints: this loads the source with which the run was
/// started, and sets `model.pipeline`, unless it was given, to the passes that made it learn.
Result<std::unique_ptr<Module>> loadSource(const CLI::App& app, ModelFlags& model);

}  // namespace tg
