// SPDX-License-Identifier: Apache-2.0
// The folder of a run for tg-run train: a new one, one to resume, or one in which to start again.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/driver/train_open.h"

namespace tg {

/// The options on the command line, or in a file of --config, by name without dashes.
using TypedOptions = std::map<std::string, std::vector<std::string>>;
TypedOptions typedOptions(const CLI::App& app);
/// The arguments of a command line that has the run's own options, overridden by those that were typed.
Result<Arguments> overRunConfig(const std::string& run, const TypedOptions& typed);

/// The run to resume: the folder, or the checkpoint in it, that --resume names. "" to start a new run: without
/// --resume, or for `auto` if there is no run.
Result<std::string> resumedRun(const TrainFlags& flags);

/// Locks the run's folder, except for a dry run or on a rank that does not write there, and reads the checkpoint to
/// resume from; there is none if the run was stopped before its first one. Compares the run's files with their hashes.
Result<void> lockRun(const std::string& resume, const TrainFlags& flags, bool takesLock, OpenTraining& out);

/// Checks options that are fixed when a run starts: an error if one was typed, or edited in config.toml, with a value other
/// than the run's. `saved` is the checkpoint's state, null if there is none.
Result<void> checkOptions(const std::string& run, const TypedOptions& typed, const TrainState* saved);

/// The folder for a new run, for --dry-run and before anything is compiled. An error if it already contains a run with
/// checkpoints. "" means that nothing is saved.
Result<std::string> freshRunDir(const ModelFlags& model, const TrainFlags& flags);

/// Takes the run's folder and writes all files from which training starts: model.tgir, module.spirv.tgir, env.json,
/// plan.json, and last config.toml, without which the folder is not a run. A new run gets a folder that nobody else
/// uses, locked before the first write. In a resumed one, later checkpoints are moved aside, and config.toml gets the
/// options of this part.
Result<void> takeRunDir(const CLI::App& app, const std::string& command, const ModelFlags& model,
                        const TrainFlags& flags, OpenTraining& training);

}  // namespace tg
