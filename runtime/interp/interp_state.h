// SPDX-License-Identifier: Apache-2.0
// What the interpreter's files share: one walk for each kind of stage, and how regions run.
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
  /// Stages tensor and fused: params and states, which other interpreters may use too.
  std::map<std::string, std::shared_ptr<NdArray>> storage;
  PlannedMemory memory;  ///< from planned on

  bool planned() const { return module.stage >= Stage::planned; }
  bool exact() const {
    return options.mode == InterpMode::exact || (options.mode == InterpMode::automatic && planned());
  }
};

/// One call of a function: its inputs are checked and in the order of its arguments.
struct InterpCall {
  InterpState& state;
  const Item& function;
  std::span<const NdArray* const> inputs;
  EvalContext context;
  RunResult result;
};

/// Stages tensor and fused: values are arrays, updates commit at the end.
Result<void> runTensors(InterpCall& call);
/// Stage planned: every region reads and writes bytes.
Result<void> runPlanned(InterpCall& call);
/// Stages kernel and spirv: commands over bytes, kernels lane by lane.
Result<void> runCommands(InterpCall& call);

/// Runs the body of a tg.fused on one array for each binding and returns what it yields: one array
/// for each result slot, a flat one for a group.
Result<std::vector<NdArray>> evalRegion(const Op& fused, std::span<const NdArray* const> bindings,
                                        EvalContext& context);
/// How many results each slot of a tg.fused has: 1, or the number of members of a group.
std::vector<int> slotSizes(const Op& fused);
inline bool isGroupSlot(const Op& fused, size_t slot) {
  return !fused.groups.empty() && fused.groups[slot] > 0;
}

/// The bytes an argument such as `in(@arena[0:64])` names.
Result<std::span<std::byte>> bytesOf(PlannedMemory& memory, const Op& op, const Operand& argument);
/// tg.fill: zeros.
Result<void> runFill(PlannedMemory& memory, const Op& op);

/// Begins an all-reduce of f32 elements; the result is its ticket. A no-op on a single rank.
Result<int64_t> beginCollective(InterpCall& call, std::span<std::byte> bytes, std::string_view reduction);
/// The arguments of a reduce_scatter or all_gather.
struct ShardArgs {
  const Loc& loc;
  std::string kind;
  std::string reduction;
  collective::Element element;
  std::span<const std::byte> send;
  std::span<std::byte> receive;
};
/// Runs it. An error if there is not one shard for each rank.
Result<void> runSharded(InterpCall& call, const ShardArgs& args);
Result<void> waitCollective(InterpCall& call, int64_t ticket);

/// Poisons the arena and the function's outputs, then stores the inputs.
Result<void> beginPlannedCall(InterpCall& call);
/// Reads results, captures and param_grads from their places.
Result<void> collectOutputs(InterpCall& call);
/// Where a function-level value lives, or an error that names it.
Result<const Place*> homeOf(const Value& value);

}  // namespace tg
