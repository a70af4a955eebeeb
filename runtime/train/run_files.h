// SPDX-License-Identifier: Apache-2.0
// Checks that the files from which a run starts have not been changed since they were written.
//
// The first line of config.toml has XXH3-64 hashes of model.tgir, of module.spirv.tgir, and of the rest of config.toml
// together with these hashes. The run's checkpoints also have the hashes of the two modules.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ir/result.h"
#include "runtime/train/checkpoint.h"

namespace tg {

/// The textHash of a run's files.
struct RunHashes {
  std::string model;   ///< model.tgir
  std::string module;  ///< module.spirv.tgir
};

/// The text of config.toml: the line of hashes, then `options`, one on each line.
std::string formatConfig(const RunHashes& hashes, const std::string& options);

/// The hashes in a config.toml. Nothing if their line is missing, because someone removed it to change options by hand,
/// or because the file is from an old program. If the text has been changed, an error that begins with `where`.
Result<std::optional<RunHashes>> configHashes(std::string_view text, const std::string& where);

/// An error if one of the files that a run starts from, or continues with, exists but is not a file: a folder, or a
/// pipe, at which reading would block.
Result<void> checkRunKinds(const std::string& run);

/// First does checkRunKinds. Then compares config.toml, model.tgir and module.spirv.tgir with the hashes in
/// config.toml, if it has them, and with those of `state`, the state of a checkpoint, if it is given. The error names
/// the file.
Result<void> checkRunFiles(const std::string& run, const TrainState* state);

}  // namespace tg
