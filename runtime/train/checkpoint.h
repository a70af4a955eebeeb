// SPDX-License-Identifier: Apache-2.0
// Checkpoints of a run: one folder `ckpt/step_00001000` for each, which is either complete or not there.
//
// A folder has model.safetensors (params), optim.safetensors (states), state.json (the rest) and COMPLETE, which lists
// every other file with its XXH3-64 and is written last. All files are written to a temporary folder beside the final
// one, synced, and renamed. So whatever interrupts a save, earlier checkpoints survive.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/result.h"
#include "runtime/runner.h"

namespace tg {

/// The contents of state.json: all that resuming needs besides tensors. Random numbers are pure functions of (seed,
/// step), so no generator has to be saved.
struct TrainState {
  int64_t step = 0;  ///< steps done, including those that only accumulate gradients
  uint64_t seed = 0;
  double seconds = 0;                   ///< of training so far, over all parts of the run
  std::string moduleHash;               ///< XXH3-64 of the source module's text
  std::string finalHash;                ///< of the spirv module that ran
  std::string dataHash;                 ///< Feed::fingerprint
  std::optional<std::string> evalHash;  ///< Feed::evalFingerprint
  std::string device, driver;
  std::string version;                    ///< of the program that wrote it
  std::optional<std::string> vocabulary;  ///< Vocabulary::printable
  std::optional<double> valLoss;          ///< of the last evaluation
  int64_t withoutUpdate = 0;              ///< updates in a row that the module left out
  int64_t leftOut = 0;                    ///< steps in a row that were undone
  bool evaluationOwed = false;            ///< the evaluation of `step` was interrupted; resuming repeats it
  std::optional<double> bestValLoss;
  int64_t bestStep = 0;
  double learningRate = 0;     ///< of the last step
  int64_t ranks = 1;           ///< number of ranks that trained together
  int64_t batches = 0;         ///< of one update, over all ranks and accumulating steps; 0 if not known
  int64_t stepsPerUpdate = 0;  ///< counted as `step` is; 0 means batches / ranks
  int64_t stride = 1;          ///< the number of these steps in one step of a rank
  std::string stateHash;       ///< of the tensors; set by saving, compared by reading
  std::optional<std::string>
      options;                   ///< lines of config.toml that the run cannot change; nothing if not known
  std::string learningRateFlag;  ///< the option that replaced the module's schedule; "" if none
};
/// state.json as text. Numbers that JSON does not have are written as the words nan, inf and -inf.
std::string stateToJson(const TrainState& state);
/// Parses a state. Missing members, and members of another type, are errors; `where` names the text.
Result<TrainState> stateFromJson(std::string_view text, const std::string& where);
/// Reads the state.json of a checkpoint folder, without verifying the folder.
Result<TrainState> readState(const std::string& path);

/// A checkpoint with all its tensors in memory.
struct Checkpoint {
  TrainState state;
  NamedArrays params, states;
};

class FolderHold;

/// A checkpoint folder found on disk.
struct CheckpointEntry {
  std::string path;
  int64_t step = 0;
  std::string damage;  ///< why it cannot be used, with the file's name; "" if it is good
  std::shared_ptr<const FolderHold> hold = {};  ///< while this exists, the run's training does not prune it
};

/// Writes `runDir`/ckpt/step_N and returns its path. An existing checkpoint of this step is kept if it is good, has the
/// same tensors and includes the same evaluation; otherwise it is replaced atomically. On an error (no space, no
/// permission) the temporary folder is removed, and nothing else has changed. The metadata of model.safetensors
/// contains the step, the seed and the vocabulary, so that the file can be used alone. Tensors are read piece by piece
/// while they are written, so no tensor is ever whole in host memory.
Result<std::string> saveCheckpoint(const std::string& runDir, TrainState state, const TensorSource& params,
                                   const TensorSource& states);

/// The metadata of a file of params: what the tokens of a text stand for. Equal params of any step have equal files.
std::map<std::string, std::string> paramsMetadata(const TrainState& state);

/// The reason why a checkpoint folder cannot be used, which begins with the name of the file that is missing, longer,
/// changed or unknown; "" for a good one. Reads every byte.
std::string checkpointDamage(const std::string& path);

/// The step in the name of a checkpoint's folder, step_N; none for another name, such as step_N.superseded.
std::optional<int64_t> stepOf(std::string_view name);

/// All checkpoints of a run, newest first, each verified against its COMPLETE. Temporary folders of killed processes do
/// not count. A run without checkpoints has no ckpt folder. A path without a run is an error.
Result<std::vector<CheckpointEntry>> listCheckpoints(const std::string& runDir);

/// The checkpoint with the newest name, unverified; none if there is none.
Result<std::optional<CheckpointEntry>> newestCheckpoint(const std::string& runDir);

struct LatestCheckpoint {
  std::optional<CheckpointEntry> good;   ///< the newest good one
  std::vector<CheckpointEntry> skipped;  ///< newer ones that are damaged or incomplete
};
/// Verifies checkpoints from the newest on, until one is good.
Result<LatestCheckpoint> latestCheckpoint(const std::string& runDir);

/// A checkpoint whose tensors are read on demand.
struct OpenCheckpoint {
  std::string path;
  TrainState state;
  TensorSource params, states;
};
/// Verifies a checkpoint folder and opens it.
Result<OpenCheckpoint> openCheckpoint(const std::string& path);
/// Passes the params and then the states to `use`, which must read all of them once and in order. Then compares their
/// hash with that of the state.
using UseTensors = std::function<Result<void>(ItemKind kind, const TensorSource& tensors)>;
Result<void> readTensors(const OpenCheckpoint& checkpoint, const UseTensors& use);
/// Reads all tensors of a checkpoint into arrays, and compares their hash.
Result<Checkpoint> readCheckpoint(const std::string& path);

/// Removes all good checkpoints except the newest `keepLast` and those whose step is in `keep`; 0 keeps all good ones.
/// Also removes damaged ones that are older than the newest good one, and temporary folders of dead processes. Nothing
/// is removed before the newest good checkpoint has been verified.
Result<void> pruneCheckpoints(const std::string& runDir, int64_t keepLast, const std::vector<int64_t>& keep);

/// Prepares a run's folder for continuing from `step`. Good checkpoints of later steps, which would count as the
/// newest, are renamed to step_N.superseded (.superseded.2 and so on if that exists), which no function here treats as
/// a checkpoint. Temporary folders of dead processes are removed. Damaged checkpoints stay and are skipped. Returns the
/// new paths, oldest first.
Result<std::vector<std::string>> supersedeAfter(const std::string& runDir, int64_t step);

/// Computes XXH3-64 over the names, types and bytes of tensors while they are read: their number, then each in order.
class TensorHash {
 public:
  TensorHash();
  ~TensorHash();
  /// Adds the next list of tensors: returns the same tensors, which are hashed while they are read. They must be read
  /// once, in order, before those of the next list. The hash must outlive them.
  TensorSource hashed(TensorSource source);
  /// 16 hexadecimal digits, once all tensors have been read.
  std::string digest();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The tensors of `file` for the params (or states) `wanted`, in that order and with those types. Floats are rounded to
/// floats of another width; integers and i1 are converted to other integer types if they fit. A name that `file` lacks
/// is looked up under its name in tensorgrad for TypeScript: W, g and b for w, gain and bias, flat or not. The error
/// lists every tensor, by name and shape, that is missing, is not wanted, or has another shape or type.
Result<TensorSource> matchTensors(TensorSource file, const std::vector<std::pair<std::string, Type>>& wanted,
                                  const std::string& where);
/// The name in `file` for a wanted one: the same, or its name in tensorgrad for TypeScript.
std::string nameInFile(const std::vector<std::pair<std::string, Type>>& file, const std::string& wanted);

}  // namespace tg
