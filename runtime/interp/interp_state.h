// SPDX-License-Identifier: Apache-2.0
// Shared by the interpreter's files: one function to run each kind of stage, and the evaluation of regions.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/interp/eval_ops.h"
#include "runtime/interp/interp.h"
#include "runtime/interp/planned_memory.h"

namespace tg {

class InterpState {
 public:
  InterpState(const Module& theModule, const InterpOptions& theOptions)
      : module(theModule), options(theOptions), memory(theModule) {}

  const Module& module;
  InterpOptions options;
  /// Stages tensor and fused: params and states; other interpreters may share them.
  std::map<std::string, std::shared_ptr<NdArray>> storage;
  PlannedMemory memory;  ///< used from stage planned on

  bool planned() const { return module.stage >= Stage::planned; }
  bool exact() const {
    return options.mode == InterpMode::exact || (options.mode == InterpMode::automatic && planned());
  }
};

/// One call of a function. Its inputs are checked, and in the order of its arguments.
struct InterpCall {
  InterpState& state;
  const Item& function;
  std::span<const NdArray* const> inputs;
  EvalContext context;
  RunResult result;
};

/// Runs stages tensor and fused: values are arrays, and updates are committed at the end.
Result<void> runTensors(InterpCall& call);
/// Runs stage planned: every region reads and writes bytes.
Result<void> runPlanned(InterpCall& call);
/// Runs stages kernel and spirv: executes commands on bytes, and kernels lane by lane.
Result<void> runCommands(InterpCall& call);

/// Runs the body of a tg.fused on one array for each binding. Returns one array for each result slot; a group has a
/// flat one.
Result<std::vector<NdArray>> evalRegion(const Op& fused, std::span<const NdArray* const> bindings,
                                        EvalContext& context);
/// The number of results of each slot of a tg.fused: 1, or the number of members of a group.
std::vector<int> slotSizes(const Op& fused);
inline bool isGroupSlot(const Op& fused, size_t slot) {
  return !fused.groups.empty() && fused.groups[slot] > 0;
}

/// The bytes that an argument such as `in(@arena[0:64])` names.
Result<std::span<std::byte>> bytesOf(PlannedMemory& memory, const Op& op, const Operand& argument);
/// Runs a tg.fill, which writes zeros.
Result<void> runFill(PlannedMemory& memory, const Op& op);

/// Begins an all-reduce of f32 elements and returns its ticket. Does nothing on a single rank.
Result<int64_t> beginCollective(InterpCall& call, std::span<std::byte> bytes, std::string_view reduction);
/// The operands of a reduce_scatter or all_gather.
struct ShardArgs {
  const Loc& loc;
  std::string kind;
  std::string reduction;
  collective::Element element;
  std::span<const std::byte> send;
  std::span<std::byte> receive;
};
/// Runs the collective. An error unless there is one shard for each rank.
Result<void> runSharded(InterpCall& call, const ShardArgs& args);
Result<void> waitCollective(InterpCall& call, int64_t ticket);

/// Poisons the arena and the function's outputs, and then stores the inputs.
Result<void> beginPlannedCall(InterpCall& call);
/// Reads results, captures and param_grads from their places.
Result<void> collectOutputs(InterpCall& call);
/// The place of a value of the function, or an error that names it.
Result<const Place*> homeOf(const Value& value);

}  // namespace tg
