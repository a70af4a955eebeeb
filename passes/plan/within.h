// SPDX-License-Identifier: Apache-2.0
// Places for the values of a function within a number of bytes, for which kernels run again.
#pragma once

#include <memory>

#include "passes/plan/function_plan.h"

namespace tg::plan {

/// A function and its plan.
struct Planned {
  std::unique_ptr<Item> func;
  std::unique_ptr<FunctionPlan> plan;
  int runsAgain = 0;     ///< more runs of kernels than in the text; 0 if only others are repeated
  double addedWork = 0;  ///< theirs, as a part of the function's
};

/// What running a region once takes, in the units of the cost model: its arithmetic or its memory, and handing it over.
double workOfRegion(const Op& region, const Module& module, const Target& target);

/// Plans a copy of `written`, whose ops stand in the order of the text, so that its arena takes `room` bytes at
/// most. Where that cannot be, the plan is the one with the least arena found.
Result<Planned> planWithin(const Module& module, const Item& written, const Target& target,
                           std::optional<int64_t> slack, int64_t room);

}  // namespace tg::plan
