// SPDX-License-Identifier: Apache-2.0
#include "tools/driver/ranks.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include <fmt/format.h>

#include "ir/parser.h"
#include "ir/text.h"
#include "runtime/collective/engine.h"
#include "runtime/nccl_init.h"
#include "tools/driver/listings.h"

namespace tg {

namespace {

constexpr const char* kLibrary = "libtensorgrad_mpi.so";
/// Separates the fields of a rank's text in compareRanks.
constexpr char kSeparator = '\x1f';

/// Whether a launcher started this process as one of several.
bool isLaunched() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS", "SLURM_STEP_NUM_TASKS"})
    if (const char* size = std::getenv(name); size && std::atoi(size) > 1) return true;
  return false;
}

/// The files in which to look for the plug-in: first beside this program's libraries, then by the dynamic loader.
std::vector<std::string> libraries() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path lib = program.parent_path().parent_path() / "lib";
  return {(lib / kLibrary).string(), kLibrary};
}

/// The first difference of a rank's facts from rank 0's, or "".
std::string difference(int rank, const std::vector<std::string>& own, const std::vector<std::string>& first,
                       const RankFacts& names) {
  for (size_t i = 0; i < names.size(); ++i)
    if (own.size() != first.size() || own[i + 2] != first[i + 2])
      return fmt::format("rank {} differs from rank 0 in {}: {}, not {}", rank, names[i].first,
                         own.size() == first.size() ? own[i + 2] : "unknown", first[i + 2]);
  return "";
}

}  // namespace

void addRankFlags(CLI::App& app, RankFlags& flags, const std::string& group) {
  addValue(app, "--collective", "HOW", flags.collective,
           "library for collectives between ranks: auto (mpi if mpirun or srun started several, and nccl on "
           "NVIDIA GPUs), mpi, nccl, none")
      ->check(CLI::IsMember({"auto", "mpi", "nccl", "none"}))
      ->group(group)
      ->configurable(false);
  addValue(app, "--collective-timeout", "SECONDS", flags.timeout,
           "seconds without a heartbeat from a rank after which the job ends (default 20)")
      ->check(atLeast(2))
      ->group(group)
      ->configurable(false);
}

Result<std::shared_ptr<collective::Engine>> joinRanks(const RankFlags& flags) {
  const bool asked = flags.collective == "mpi" || flags.collective == "nccl";
  const bool several = asked || (flags.collective == "auto" && isLaunched());
  if (!several) return std::shared_ptr<collective::Engine>();
  auto engine = collective::openPlugin(libraries(), flags.timeout);
  if (!engine) return fail("--collective={}: {}", flags.collective, engine.error().message());
  return engine;
}

int initGpuCollectives(const CLI::App& app, const RankFlags& flags, ModelFlags& model) {
  if (flags.collective == "mpi" || (flags.collective == "auto" && model.device == "interp")) return exitOk;
  const std::string name = deviceName(model);
  auto nccl = initNccl(model.ranks, {name, model.validation, false, {}});
  if (!nccl) return endJob(app, *model.ranks, withCode(exitDevice, nccl.takeError()));
  if (nccl->ranks) {
    model.ranks = nccl->ranks;
    model.opened = nccl->device;
    model.openedAs = name;
    return exitOk;
  }
  const bool first = model.ranks->rank() == 0;
  if (flags.collective == "nccl")
    return first ? report(app, fail("--collective=nccl: " + nccl->why)) : int{exitInput};
  if (first && nccl->expected && model.notes)
    fmt::print(stderr, "note: nccl: {}; mpi is used instead\n", nccl->why);
  return exitOk;
}

int localRank() {
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"})
    if (const char* number = std::getenv(name)) return std::atoi(number);
  return 0;
}

RankFacts factsOf(const Session& session) {
  const SessionInfo info = session.info();
  return {{"its version", versionText()},
          {"its device", info.device},
          {"its driver", info.driver},
          {"the module compiled for its device", textHash(print(*session.module()))}};
}

int compareRanks(const CLI::App& app, collective::Engine& ranks, const Result<int>& ready,
                 const RankFacts& facts) {
  std::string own = fmt::format("{}{}{}", ready ? *ready : ready.error().exitCode(), kSeparator,
                                ready ? "" : reportText(app, ready.error()));
  for (const auto& [name, fact] : facts) own += kSeparator + fact;
  auto all = ranks.allGather(own);
  if (!all) return endJob(app, ranks, withCode(exitDevice, all.takeError()));
  std::vector<std::vector<std::string>> fields;
  for (const std::string& text : *all) fields.push_back(splitText(text, kSeparator));
  for (int rank = 0; rank < ranks.ranks(); ++rank) {
    const std::vector<std::string>& its = fields[static_cast<size_t>(rank)];
    const int failed = std::atoi(its[0].c_str());
    if (failed == exitOk) continue;
    if (ranks.rank() == 0) fmt::print(stderr, "rank {}: {}", rank, its[1]);
    return failed;
  }
  for (int rank = 1; rank < ranks.ranks(); ++rank) {
    const std::string other = difference(rank, fields[static_cast<size_t>(rank)], fields[0], facts);
    if (other.empty()) continue;
    return ranks.rank() == 0 ? report(app, fail(other + "; all ranks must start alike")) : int{exitInput};
  }
  return exitOk;
}

int endJob(const CLI::App& app, collective::Engine& ranks, const Error& error) {
  constexpr auto kUntilKilled = std::chrono::seconds(5);
  const bool rankLost = ranks.failed();
  const int code = rankLost ? int{exitDevice} : error.exitCode();
  // All ranks see that one is lost. One of them reports it and ends the others.
  if (rankLost && !ranks.reportsFailure()) std::this_thread::sleep_for(kUntilKilled);
  if (!rankLost || ranks.reportsFailure())
    report(app, rankLost ? error : fail("rank {}: {}", ranks.rank(), error.message()));
  std::fflush(nullptr);
  ranks.abort(code);
  return code;
}

}  // namespace tg
