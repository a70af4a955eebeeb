// SPDX-License-Identifier: Apache-2.0
// Plans a function within a given number of bytes, by running kernels again.
#pragma once

#include <memory>

#include "passes/plan/function_plan.h"

namespace tg::plan {

/// A function and its plan.
struct Planned {
  std::unique_ptr<Item> func;
  std::unique_ptr<FunctionPlan> plan;
  int runsAgain =
      0;  ///< how many more runs of kernels there are than in the text; 0 if only others are repeated
  double addedWork = 0;  ///< their work as a fraction of the function's
};

/// The cost of running a region once, in operations: the larger of its arithmetic and its memory traffic, plus a dispatch.
double workOfRegion(const Op& region, const Module& module, const Target& target);

/// Plans a copy of `written`, whose ops are in text order, so that its arena takes at most `room` bytes. If that is
/// impossible, returns the plan with the smallest arena found.
Result<Planned> planWithin(const Module& module, const Item& written, const Target& target,
                           std::optional<int64_t> slack, int64_t room);

}  // namespace tg::plan
