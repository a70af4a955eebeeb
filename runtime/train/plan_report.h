// SPDX-License-Identifier: Apache-2.0
// What a compiled module takes: memory over the course of a call, and the work of every kernel.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/module.h"

namespace tg {

/// A value in memory. Arena values live from the step that writes them to the last that reads them, members
/// of a group from the first such step of any of them to the last: the group is one allocation.
struct MemoryValue {
  std::string name, type;
  std::string source;  ///< file:line:column of what it comes from; "" where the text does not tell
  std::string room;    ///< "persistent", "io" or "arena"
  int64_t offset = 0;  ///< bytes, in its room
  int64_t bytes = 0;
  int first = 0, last = -1;  ///< steps; persistent and io values live through all of them
};

/// What the memory of one function holds, command by command.
struct MemoryReport {
  std::string function;
  /// Sizes of the three buffers, which all functions share, and the arena's least size for this order.
  int64_t persistentBytes = 0, ioBytes = 0, arenaBytes = 0, lowerBoundBytes = 0;
  struct Step {
    std::string label, source;
    int64_t liveBytes = 0;  ///< of the arena, rounded up to the target's alignment
  };
  std::vector<Step> steps;
  int peak = -1;  ///< the step with the most live bytes, the first of equals; -1 without any
  std::vector<MemoryValue> values;  ///< params, states, inputs and results, then arena values by birth

  int64_t peakBytes() const { return peak < 0 ? 0 : steps[static_cast<size_t>(peak)].liveBytes; }
  int64_t totalBytes() const { return persistentBytes + ioBytes + arenaBytes; }
  /// Arena values at the peak, the largest first.
  std::vector<MemoryValue> liveAtPeak() const;
};

/// One dispatch, fill or copy of a function, in order.
struct CommandReport {
  std::string kind;           ///< "dispatch", "fill" or "copy"
  std::string kernel, label;  ///< of a dispatch
  std::string source;         ///< file:line:column, or ""
  /// Bytes that have to be moved at least: each byte of a bound range once, and none that is not accessed.
  double bytes = 0;
  double accessedBytes = 0;  ///< every load and store counted
  double flops = 0;
  bool counted = true;  ///< false for a binary without its kernel: only the ranges are known
  bool decided = true;  ///< KernelCost::decided
};

/// The dispatches of one kernel in one function, their costs added up over a call.
struct KernelReport {
  std::string function, kernel, label, source;
  int64_t dispatches = 0;
  double bytes = 0, flops = 0;
};

struct PlanReport {
  MemoryReport memory;
  std::vector<KernelReport> kernels;  ///< none before stage kernel
};

/// The commands of a function of stage kernel or spirv.
std::vector<CommandReport> commandReports(const Module& module, const Item& func);

/// The memory of a function of stage planned, kernel or spirv. At stage planned values have the names and
/// types of the model; later only what kernels and their labels still tell. `module` holds the function.
MemoryReport memoryReport(const Module& module, const Item& func);

/// Both, for a module of stage planned, kernel or spirv: memory of `function`, or of the function with the
/// highest peak when it is empty or unknown; kernels of all functions.
PlanReport planReport(const Module& module, const std::string& function = "");

/// plan.json of a run directory.
std::string toJson(const PlanReport& report);

}  // namespace tg
