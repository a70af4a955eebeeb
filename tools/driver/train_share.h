// SPDX-License-Identifier: Apache-2.0
// A run that goes on with another number of ranks: how these share the batches of an update, which stay the same.
#pragma once

#include <memory>
#include <string>

#include "passes/pass.h"
#include "runtime/train/checkpoint.h"
#include "tools/driver/batch_parts.h"
#include "tools/driver/run_setup.h"
#include "tools/driver/train_flags.h"
#include "tools/driver/train_open.h"

namespace tg {

/// What one of the ranks does of an update, and what its steps count in the run.
struct RankShare {
  int64_t split = 1;                      ///< ranks that share one batch, each with its part of the rows
  int64_t batches = 1;                    ///< of an update that a rank takes, one a step
  int64_t step = 0;                       ///< of the run to go on from
  int64_t stepsPerUpdate = 1;             ///< as the run counts them
  int64_t stride = 1;                     ///< steps of the run that one of the rank is
  bool others = false;                    ///< the ranks, or how they share, are others than when it was saved
  bool anew = false;                      ///< the module is compiled for these ranks
  std::unique_ptr<Module> ran = nullptr;  ///< what the run was started with, compiled
};

/// Whether a function of the module joins the gradients of several ranks.
bool joinsRanks(const Module& module);

/// Calls of @train in one update.
int64_t callsPerUpdate(const Module& module);

/// The share of one of the ranks there are now in the updates of a run, from the state that was saved and the source
/// module. 0, or an exit code after telling which numbers of ranks can go on.
int shareOf(const CLI::App& app, const ModelFlags& model, const TrainFlags& flags, const std::string& run,
            const Module& source, const TrainState& saved, RankShare& share);

/// Tells what is new about the steps. 0, or an exit code where the run's count is another one from now on and nobody
/// has said how long to train.
int recount(const CLI::App& app, const std::string& run, const TrainState& saved, const RankShare& share,
            const ModelFlags& model, OpenTraining& out);

/// The pipeline that compiles `source` for the share. 0, or an exit code.
int passesFor(const CLI::App& app, const RankShare& share, const std::string& run, const Module& source,
              ModelFlags& model);

}  // namespace tg
