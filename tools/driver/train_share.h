// SPDX-License-Identifier: Apache-2.0
// Resumes a run with another number of ranks: divides the batches of an update, which stay the same, among the ranks.
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

/// One rank's share of an update, and the counting of its steps in the run.
struct RankShare {
  int64_t split = 1;                      ///< ranks that share the rows of one batch
  int64_t batches = 1;                    ///< the batches that a rank takes in an update, one in each step
  int64_t begunWith = 1;                  ///< the same when the run was started
  int64_t step = 0;                       ///< of the run, to resume from
  int64_t stepsPerUpdate = 1;             ///< counted in the run's steps
  int64_t stride = 1;                     ///< the number of the run's steps in one step of the rank
  bool others = false;                    ///< ranks or shares differ from those of the checkpoint
  bool anew = false;                      ///< the module must be compiled again for these ranks
  std::unique_ptr<Module> ran = nullptr;  ///< the compiled module that the run was started with
};

/// Whether the module averages gradients over ranks.
bool isDataParallel(const Module& module);

/// The number of calls of @train in one update.
int64_t callsPerUpdate(const Module& module);

/// Computes the share of each of the current ranks from the saved state and the source module. An error says which
/// numbers of ranks can resume.
Result<RankShare> shareOf(const CLI::App& app, const ModelFlags& model, const TrainFlags& flags,
                          const std::string& run, const Module& source, const TrainState& saved);

/// Notes how steps are counted from now on. An error if the counting changes and neither --steps nor --epochs is given.
Result<void> recount(const std::string& run, const TrainState& saved, const RankShare& share,
                     const ModelFlags& model, const TrainFlags& flags, OpenTraining& out);

/// Sets how many steps lie between two runs of functions with `every`, so that as many updates do as before. A note where that
/// is no whole number of steps.
void rescale(const RankShare& share, Module& source, std::vector<std::string>& notes);

/// Sets the pipeline that compiles `source` for the share.
Result<void> passesFor(const RankShare& share, const std::string& run, const Module& source,
                       ModelFlags& model);

}  // namespace tg
