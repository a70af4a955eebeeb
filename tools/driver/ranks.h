// SPDX-License-Identifier: Apache-2.0
// tg-run as one of several ranks, which mpirun or srun has started.
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
  double timeout = 20;  ///< seconds of silence
};
/// In the help's group of this name.
void addRankFlags(CLI::App& app, RankFlags& flags, const std::string& group);

/// Joins the job that this process was started in; null where it is alone.
Result<std::shared_ptr<collective::Engine>> joinRanks(const RankFlags& flags);

/// Has the ranks of `model` reduce on their GPUs by NCCL, where the flags ask for it, or let them and they can; the
/// device is then open. 0, or an exit code after rank 0 has told why. Where NVIDIA's GPUs do without, a note says why.
int joinGpus(const CLI::App& app, const RankFlags& flags, ModelFlags& model);

/// This process's number among those of its host, as its launcher says.
int localRank();

/// What ranks compare before they work: a name for people, and what this one has.
using RankFacts = std::vector<std::pair<std::string, std::string>>;

/// The program, the device and what was compiled for it.
RankFacts factsOf(const Session& session);

/// A meeting of all ranks, each with an exit code and what it told of it, or with its facts where the code is 0. The
/// code of the first rank that failed or has other facts than rank 0, which rank 0 tells by one message; 0 where all
/// can begin.
int compareRanks(const CLI::App& app, collective::Engine& ranks, int code, const std::string& told,
                 const RankFacts& facts);

/// Ends the job after a rank's error: one message tells the rank and why, and all processes end with the code,
/// exitDevice where a rank is lost.
int endJob(const CLI::App& app, collective::Engine& ranks, int code, const Error& error);

}  // namespace tg
