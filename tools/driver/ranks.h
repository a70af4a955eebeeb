// SPDX-License-Identifier: Apache-2.0
// tg-run as one of several ranks, started by mpirun or srun.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/collective/engine.h"
#include "tools/driver/run_setup.h"

namespace tg {

struct RankFlags {
  std::string collective = "auto";
  double timeout = 20;  ///< seconds without a heartbeat
};
/// `group` is the heading in the help.
void addRankFlags(CLI::App& app, RankFlags& flags, const std::string& group);

/// Joins the job that this process was started in. Null: it is the only rank.
Result<std::shared_ptr<collective::Engine>> joinRanks(const RankFlags& flags);

/// All ranks call this together. Switches the ranks of `model` to NCCL and opens its device, if the flags require it,
/// or allow it and all ranks can. Returns 0, or an exit code after rank 0 has printed the error. If NVIDIA GPUs do not
/// use NCCL, a note says why.
int initGpuCollectives(const CLI::App& app, const RankFlags& flags, ModelFlags& model);

/// The index of this process among those on its host, from the launcher's environment.
int localRank();

/// What ranks compare before they start: pairs of a name, for messages, and this rank's value.
using RankFacts = std::vector<std::pair<std::string, std::string>>;

/// The facts about the program, the device and the compiled module.
RankFacts factsOf(const Session& session);

/// All ranks call this together. Each rank passes its exit code so far or its error, and its facts if the code is 0.
/// Returns the code of the first rank that failed or whose facts differ from rank 0's, which rank 0 reports; 0 if all can
/// start.
int compareRanks(const CLI::App& app, collective::Engine& ranks, const Result<int>& ready,
                 const RankFacts& facts);

/// Ends the job after an error of a rank: one message names the rank and the reason, and all processes end with the
/// error's exit code, or with exitDevice if a rank is lost.
int endJob(const CLI::App& app, collective::Engine& ranks, const Error& error);

}  // namespace tg
