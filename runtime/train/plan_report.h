// SPDX-License-Identifier: Apache-2.0
// The resources of a compiled module: memory over the course of a call, and the work of each kernel.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/module.h"

namespace tg {

/// A value in memory. An arena value lives from the step that writes it to the last step that reads it. A group is one
/// allocation, so its members live from the first such step of any of them to the last.
struct MemoryValue {
  std::string name, type;
  std::string source;  ///< file:line:column of its origin; "" if unknown
  std::string room;    ///< the buffer: "persistent", "io" or "arena"
  int64_t offset = 0;  ///< in bytes, in its buffer
  int64_t bytes = 0;
  int first = 0, last = -1;  ///< steps; persistent and io values live through all of them
};

/// The contents of memory during one function, command by command.
struct MemoryReport {
  std::string function;
  /// Sizes of the three buffers, which all functions share, and the lower bound of the arena for this order of ops.
  int64_t persistentBytes = 0, ioBytes = 0, arenaBytes = 0, lowerBoundBytes = 0;
  struct Step {
    std::string label, source;
    int64_t liveBytes = 0;  ///< in the arena, rounded up to the target's alignment
  };
  std::vector<Step> steps;
  int peak = -1;  ///< the first step with the most live bytes; -1 if there are none
  /// Params, states, inputs and results; then arena values in order of birth.
  std::vector<MemoryValue> values;

  int64_t peakBytes() const { return peak < 0 ? 0 : steps[static_cast<size_t>(peak)].liveBytes; }
  int64_t totalBytes() const { return persistentBytes + ioBytes + arenaBytes; }
  /// The arena values that are live at the peak, the largest first.
  std::vector<MemoryValue> liveAtPeak() const;
};

/// Sets the sizes of the buffers, and the lower bound of the arena, in a report that has them as MemoryReport does.
template <class Report>
void takePlan(const Module& module, Report& out) {
  for (const Item* buffer : module.all(ItemKind::buffer)) {
    int64_t& bytes = buffer->name == "persistent" ? out.persistentBytes
                     : buffer->name == "io"       ? out.ioBytes
                                                  : out.arenaBytes;
    bytes = buffer->bytes;
  }
  const Attr* plan = find(module.attrs, "plan");
  if (const Attr* bound = plan ? plan->find("lower_bound") : nullptr) out.lowerBoundBytes = bound->integer;
}

/// One dispatch, fill or copy of a function, in order.
struct CommandReport {
  std::string kind;           ///< "dispatch", "fill" or "copy"
  std::string kernel, label;  ///< of a dispatch
  std::string source;         ///< file:line:column, or ""
  /// The least number of bytes to move: each byte of a bound range once, without those that are not accessed.
  double bytes = 0;
  double flops = 0;
  bool counted = true;  ///< false for a binary without its kernel, of which only the ranges are known
};

/// The dispatches of one kernel in one function, with costs added up over a call.
struct KernelReport {
  std::string function, kernel, label, source;
  int64_t dispatches = 0;
  double bytes = 0, flops = 0;
};

struct PlanReport {
  MemoryReport memory;
  std::vector<KernelReport> kernels;  ///< empty before stage kernel
};

/// The commands of a function of stage kernel or spirv.
std::vector<CommandReport> commandReports(const Module& module, const Item& func);

/// The memory use of a function of stage planned, kernel or spirv. At stage planned values have the model's names and
/// types; later only those that kernels and their labels still have. `module` contains the function.
MemoryReport memoryReport(const Module& module, const Item& func);

/// Both reports, for a module of stage planned, kernel or spirv: the memory of `function` (or of the function with the
/// highest peak if that is empty or unknown), and the kernels of all functions.
PlanReport planReport(const Module& module, const std::string& function = "");

/// The text of plan.json in a run directory.
std::string toJson(const PlanReport& report);

}  // namespace tg
