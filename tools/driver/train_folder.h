// SPDX-License-Identifier: Apache-2.0
// The folder of a run as tg-run train takes it: a new one, one that is gone on with, or one to start anew in.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/driver/train_open.h"

namespace tg {

/// The options as typed, or in a file that --config names, by name without dashes.
using TypedOptions = std::map<std::string, std::vector<std::string>>;
TypedOptions typedOptions(const CLI::App& app);
/// The words of a command line with the run's own options, over which those typed win.
Arguments overRunConfig(const std::string& run, const TypedOptions& typed);

/// What --resume names: a run's folder or one of its checkpoints. "" where nothing is gone on with: without
/// --resume, and for `auto` where no run is.
Result<std::string> resumedRun(const TrainFlags& flags);

/// Locks the run's folder, unless for a dry run or a rank that does not write there, and reads the checkpoint to go on from; none where the run
/// was stopped before its first one. Compares the files it goes on with with their hashes.
Result<void> lockRun(const std::string& resume, const TrainFlags& flags, bool takesLock, OpenTraining& out);

/// Options that are fixed when a run starts: an error where one was typed with another value than the run
/// has.
Result<void> checkTyped(const std::string& run, const TypedOptions& typed);

/// Where a fresh run will be kept, for --dry-run and before anything is compiled; an error where there is a
/// run with checkpoints already. "" keeps nothing.
Result<std::string> freshRunDir(const ModelFlags& model, const TrainFlags& flags);

/// Takes the run's folder and makes all in it that training starts from: model.tgir, module.spirv.tgir,
/// env.json, plan.json, and config.toml last, without which no run is there. A fresh run gets a folder that
/// nobody else has, locked before the first write; in one that is gone on with, later checkpoints are moved
/// aside and config.toml gets the options of this part.
Result<void> takeRunDir(const CLI::App& app, const std::string& command, const ModelFlags& model,
                        const TrainFlags& flags, OpenTraining& training);

}  // namespace tg
