// SPDX-License-Identifier: Apache-2.0
// A run's folder: the file names in it, the parameters that a path to the run, or into it, stands for, and a lock, so that
// only one process at a time trains in it, and others can tell whether it lives.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/file_io.h"
#include "ir/result.h"
#include "runtime/runner.h"
#include "runtime/train/checkpoint.h"

namespace tg {

/// Paths of the files in a run's folder.
struct RunDir {
  std::string path;
  std::string config() const { return path + "/config.toml"; }
  std::string model() const { return path + "/model.tgir"; }               ///< the source module
  std::string finalModule() const { return path + "/module.spirv.tgir"; }  ///< the module that ran
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

/// The run of a checkpoint folder RUN/ckpt/step_N. Any other path is returned as it is, without a slash at its end.
std::string runOf(const std::string& path);

/// What a path to something trained is, judged by the names in it.
enum class TrainedKind : uint8_t { none, run, checkpoint, file };
/// A folder with ckpt, config.toml or model.tgir is a run. One with COMPLETE, state.json or a step's name is a
/// checkpoint. Any other folder, and a path that does not exist, is none.
TrainedKind trainedKind(const std::string& path);

class FolderHold;

/// Parameters of something trained, and the states that it has. Tensors are read on demand.
struct Weights {
  std::string file, stateFile;       ///< the safetensors files of params and of states; one may contain both
  TensorSource tensors, states;      ///< in these files
  std::string run;                   ///< the run that they belong to; "" if they stand alone
  std::string taken;                 ///< which checkpoint of which step, for messages
  std::vector<std::string> skipped;  ///< a message for each newer checkpoint that cannot be used
  std::optional<TrainState> state;   ///< of the checkpoint; none for a file
  std::optional<std::string> vocabulary;        ///< Vocabulary::printable
  std::shared_ptr<const FolderHold> hold = {};  ///< of a checkpoint: while this exists, it is not pruned
};
/// A run stands for its latest good checkpoint, a checkpoint for itself (an error if it is damaged), a file for itself.
/// If a run has no good checkpoint, the error names all damaged ones.
Result<Weights> openWeights(const std::string& path);
/// The params of a module, as given by `matchTensors`, without those whose names `except` accepts: the file may contain
/// them in any form, and states of the module.
Result<TensorSource> paramsOf(const Weights& weights, const Module& module,
                              const std::function<bool(const std::string&)>& except = {});
/// These states of a module; `all`: an error if one is missing. States that each rank has only a part of, such as sharded
/// moments of an optimizer, are left out.
Result<TensorSource> statesOf(const Weights& weights, const std::vector<Item*>& states, bool all);

/// Keeps a second process out of a run's folder. The system releases the lock when the process ends, even if it
/// crashes.
class RunLock {
 public:
  /// The error says that another process trains there, or why the folder cannot be opened.
  static Result<RunLock> take(const std::string& runDir);

  /// An error if the folder has been renamed or removed: a file written to its path would then belong to another run.
  Result<void> check() const;

 private:
  RunLock(std::string path, Descriptor folder) : path_(std::move(path)), folder_(std::move(folder)) {}
  std::string path_;
  Descriptor folder_;
};

/// Whether a process is training in the folder now. False also if the file system has no locks.
bool isTraining(const std::string& runDir);

}  // namespace tg
