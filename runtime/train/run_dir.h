// SPDX-License-Identifier: Apache-2.0
// A run's folder: the names in it, and the parameters that a path to it, or into it, means.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/result.h"
#include "runtime/runner.h"
#include "runtime/train/checkpoint.h"

namespace tg {

/// Paths in a run's folder.
struct RunDir {
  std::string path;
  std::string config() const { return path + "/config.toml"; }
  std::string model() const { return path + "/model.tgir"; }               ///< the source
  std::string finalModule() const { return path + "/module.spirv.tgir"; }  ///< what ran
  std::string plan() const { return path + "/plan.json"; }
  std::string ranks() const { return path + "/ranks.json"; }
  std::string env() const { return path + "/env.json"; }
  std::string metrics() const { return path + "/metrics.jsonl"; }
  std::string metricsTable() const { return path + "/metrics.csv"; }
  std::string samples() const { return path + "/samples.jsonl"; }
  std::string log() const { return path + "/log.txt"; }
  std::string page() const { return path + "/index.html"; }
  std::string checkpoints() const { return path + "/ckpt"; }
};

/// The run that holds a checkpoint folder RUN/ckpt/step_N; any other path itself, without a slash at its end.
std::string runOf(const std::string& path);

/// What a path to something trained is, told by the names in it.
enum class TrainedKind : uint8_t { none, run, checkpoint, file };
/// A folder with ckpt, config.toml or model.tgir is a run; one with COMPLETE, state.json or a step's name a
/// checkpoint; any other folder, and what does not exist, none.
TrainedKind trainedKind(const std::string& path);

class FolderHold;

struct ResolvedWeights {
  std::string file;                  ///< the safetensors file with the params
  std::string run;                   ///< the run it belongs to; "" when it stands alone
  std::string taken;                 ///< for people: which checkpoint, of which step
  std::vector<std::string> skipped;  ///< for people, a line for each newer checkpoint that cannot be used
  std::optional<TrainState> state;   ///< of the checkpoint; none for a file
  std::shared_ptr<const FolderHold> hold = {};  ///< of a checkpoint: while it lives, `file` is not pruned
};
/// A run is its latest good checkpoint, a checkpoint that folder (an error when damaged), a file itself. An
/// error also when a run has no good checkpoint; it names all that are damaged.
Result<ResolvedWeights> resolveWeights(const std::string& path);

struct Weights {
  TensorSource tensors;                   ///< read as they are asked for
  std::optional<std::string> vocabulary;  ///< Vocabulary::printable
};
Result<Weights> openWeights(const ResolvedWeights& weights);
/// The params of a module in the file, as `matchTensors` gives them. The file may hold states of the module too.
Result<TensorSource> paramsOf(const ResolvedWeights& weights, const Module& module);

}  // namespace tg
