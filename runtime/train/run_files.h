// SPDX-License-Identifier: Apache-2.0
// Whether the files that a run starts from are as they were written.
//
// The first line of config.toml holds XXH3-64 hashes: of model.tgir, of module.spirv.tgir, and of the rest of
// config.toml with them. The run's checkpoints hold those of the two modules as well.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ir/result.h"
#include "runtime/train/checkpoint.h"

namespace tg {

/// textHash of a run's files.
struct RunHashes {
  std::string model;   ///< model.tgir
  std::string module;  ///< module.spirv.tgir
};

/// config.toml: `options`, a line each, under the line of hashes.
std::string formatConfig(const RunHashes& hashes, const std::string& options);

/// The hashes of a config.toml; nothing where its line was removed, by someone who changed options by hand or
/// by a program before there was one. An error, which begins with `where`, when the text is not as written.
Result<std::optional<RunHashes>> configHashes(std::string_view text, const std::string& where);

/// An error where one of the files that a run starts from or goes on with is there and is none: a folder, or a pipe,
/// which would be waited for.
Result<void> checkRunKinds(const std::string& run);

/// checkRunKinds; then compares config.toml, model.tgir and module.spirv.tgir with the hashes of config.toml, where
/// it has them, and with those of `state`, a checkpoint's, where there is one. The error names the file.
Result<void> checkRunFiles(const std::string& run, const TrainState* state);

}  // namespace tg
