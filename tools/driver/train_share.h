// SPDX-License-Identifier: Apache-2.0
// Resuming a run with another number of ranks: how they share the batches of an update, which stay the same.
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

/// One rank's share of an update, and how its steps are counted in the run.
struct RankShare {
  int64_t split = 1;                      ///< ranks that share the rows of one batch
  int64_t batches = 1;                    ///< that a rank takes in an update, one a step
  int64_t step = 0;                       ///< of the run, to resume from
  int64_t stepsPerUpdate = 1;             ///< as the run counts them
  int64_t stride = 1;                     ///< steps of the run in one of the rank's
  bool others = false;                    ///< ranks or shares differ from when it was saved
  bool anew = false;                      ///< the module must be compiled for these ranks
  std::unique_ptr<Module> ran = nullptr;  ///< the compiled module that the run was started with
};

/// Whether the module averages gradients over ranks.
bool isDataParallel(const Module& module);

/// Calls of @train in one update.
int64_t callsPerUpdate(const Module& module);

/// The share of each of the current ranks, from the saved state and the source module. 0, or an exit code after
/// reporting which numbers of ranks can resume.
int shareOf(const CLI::App& app, const ModelFlags& model, const TrainFlags& flags, const std::string& run,
            const Module& source, const TrainState& saved, RankShare& share);

/// Prints how steps are counted from now on. 0, or an exit code if the count changes and --steps is not given.
int recount(const CLI::App& app, const std::string& run, const TrainState& saved, const RankShare& share,
            const ModelFlags& model, OpenTraining& out);

/// The pipeline that compiles `source` for the share. 0, or an exit code.
int passesFor(const CLI::App& app, const RankShare& share, const std::string& run, const Module& source,
              ModelFlags& model);

}  // namespace tg
