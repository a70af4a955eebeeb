// SPDX-License-Identifier: Apache-2.0
// Checkpoints of a run: a folder `ckpt/step_00001000` for each, whole or not there.
//
// A folder holds model.safetensors (params), optim.safetensors (states), state.json (the rest) and COMPLETE,
// which names every other file with its XXH3-64 and is written last. All are written to a temporary folder
// beside it, synced, and renamed, so that whatever is interrupted, the checkpoints before it stay.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/result.h"
#include "runtime/runner.h"

namespace tg {

/// state.json: all that resuming needs besides tensors. Random numbers are pure functions of (seed, step), so
/// there is no generator to save.
struct TrainState {
  int64_t step = 0;  ///< steps done, accumulating ones included
  uint64_t seed = 0;
  double seconds = 0;      ///< of training so far, over all resumed parts
  std::string moduleHash;  ///< XXH3-64 of the source module's text
  std::string finalHash;   ///< of the spirv module that ran
  std::string dataHash;    ///< Feed::fingerprint
  std::string device, driver;
  std::string version;                    ///< of the program that wrote it
  std::optional<std::string> vocabulary;  ///< Vocabulary::printable
  std::optional<double> valLoss;          ///< of the last evaluation
  int64_t withoutUpdate = 0;              ///< steps since the last good update
  bool evaluationOwed = false;            ///< that of `step` was broken off; who goes on makes up for it
  std::optional<double> bestValLoss;
  int64_t bestStep = 0;
  double learningRate = 0;       ///< of the last step
  int64_t ranks = 1;             ///< that trained together
  int64_t batches = 0;           ///< of one update, over all ranks and accumulating steps; 0: not known
  int64_t stepsPerUpdate = 0;    ///< as `step` counts; 0: batches / ranks
  std::string stateHash;         ///< of the tensors; saving fills it in, reading compares it
  std::string learningRateFlag;  ///< what replaced the module's schedule; "" is nothing
};
/// state.json as text. Numbers that JSON lacks are the words nan, inf and -inf.
std::string stateToJson(const TrainState& state);
/// Members that are missing or of another type are errors; `where` names the text.
Result<TrainState> stateFromJson(std::string_view text, const std::string& where);
/// The state.json of one checkpoint folder, which need not be verified.
Result<TrainState> readState(const std::string& path);

struct Checkpoint {
  TrainState state;
  NamedArrays params, states;
};

class FolderHold;

/// A checkpoint folder as found on disk.
struct CheckpointEntry {
  std::string path;
  int64_t step = 0;
  std::string damage;  ///< why it cannot be used, naming the file; empty for a good one
  std::shared_ptr<const FolderHold> hold = {};  ///< while it lives, the run's training does not prune it
};

/// Writes `runDir`/ckpt/step_N and returns its path. One that is there already, good, of the same tensors and as far
/// evaluated stays as it is; any other is replaced in one step. On an error (no space, no permission) the temporary
/// folder is removed and what was there is untouched. model.safetensors carries the step, the seed and the
/// vocabulary as metadata, so that the file serves alone.
/// Tensors are read while they are written, so that none is on the host whole.
Result<std::string> saveCheckpoint(const std::string& runDir, TrainState state, const TensorSource& params,
                                   const TensorSource& states);
Result<std::string> saveCheckpoint(const std::string& runDir, const Checkpoint& checkpoint);

/// Why a checkpoint folder cannot be used, beginning with the name of the file that is missing, longer,
/// changed or unknown; "" for a good one. Reads every byte.
std::string checkpointDamage(const std::string& path);

/// All checkpoints of a run, newest first, each verified against its COMPLETE. Temporary folders that a
/// killed process left are none. A run without any has no ckpt folder; no run at all is an error.
Result<std::vector<CheckpointEntry>> listCheckpoints(const std::string& runDir);

/// The newest by its name, unverified; none where there is none.
Result<std::optional<CheckpointEntry>> newestCheckpoint(const std::string& runDir);

struct LatestCheckpoint {
  std::optional<CheckpointEntry> good;   ///< the newest good one
  std::vector<CheckpointEntry> skipped;  ///< newer ones that are damaged or incomplete
};
/// Verifies from the newest on until one is good.
Result<LatestCheckpoint> latestCheckpoint(const std::string& runDir);

/// A checkpoint whose tensors are read as they are asked for.
struct OpenCheckpoint {
  std::string path;
  TrainState state;
  TensorSource params, states;
};
/// Opens one checkpoint folder after verifying it.
Result<OpenCheckpoint> openCheckpoint(const std::string& path);
/// Hands the params and then the states to `use`, which reads all of them once and in order; then compares their hash
/// with that of the state.
using UseTensors = std::function<Result<void>(ItemKind kind, const TensorSource& tensors)>;
Result<void> readTensors(const OpenCheckpoint& checkpoint, const UseTensors& use);
/// Both, for arrays.
Result<Checkpoint> readCheckpoint(const std::string& path);

/// Removes all but the newest `keepLast` good checkpoints and those whose step is in `keep`; also damaged
/// ones older than the newest good one, and temporary folders of dead processes. `keepLast` 0 keeps all good
/// ones. Nothing is removed before the newest good one was verified.
Result<void> pruneCheckpoints(const std::string& runDir, int64_t keepLast, const std::vector<int64_t>& keep);

/// Makes a run's folder ready to go on from `step`: good checkpoints of later steps, which would count as the
/// newest, are renamed to step_N.superseded (.superseded.2 and so on where that is taken), which is no
/// checkpoint to anything here; temporary folders of dead processes are removed. Damaged ones stay, to be
/// skipped. Returns the new paths, oldest first.
Result<std::vector<std::string>> supersedeAfter(const std::string& runDir, int64_t step);

/// XXH3-64 over the names, types and bytes of tensors that are read: their count, then each of them in order.
class TensorHash {
 public:
  TensorHash();
  ~TensorHash();
  /// The next list: the same tensors, hashed while they are read, which must be once, in order, and before the list
  /// that follows. The hash must outlive them.
  TensorSource hashed(TensorSource source);
  /// 16 hexadecimal digits, when all of them were read.
  std::string digest();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// XXH3-64 over names, types and bytes in order, 16 hexadecimal digits: equal for equal parameters.
std::string stateHash(const NamedArrays& params, const NamedArrays& states);

/// The tensors of `file` for the params (or states) `wanted`, in that order and of those types. Floats become
/// floats of another width by rounding, integers and flags other integers if they fit. A name that the file
/// lacks is looked for as tensorgrad for TypeScript has it, W, g and b for w, gain and bias, flat or not. The
/// error lists every tensor that is missing, has another shape or type, or is not wanted, by name and shape.
Result<TensorSource> matchTensors(TensorSource file, const std::vector<std::pair<std::string, Type>>& wanted,
                                  const std::string& where);

}  // namespace tg
