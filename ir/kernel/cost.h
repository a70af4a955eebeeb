// SPDX-License-Identifier: Apache-2.0
// The cost of a dispatch: the floating-point operations and bytes of all its invocations, counted from the kernel's
// text.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "ir/module.h"

namespace tg {

/// Loads and stores through one parameter, over all invocations of a dispatch. Counts the bytes of every access, also
/// of those that a cache may serve.
struct ParamTraffic {
  double loaded = 0, stored = 0;
};

/// Counts of one dispatch. For floats, additions, subtractions, products, quotients, minima, maxima and functions
/// (sqrt, exp, …) are one operation for each lane, a fused multiply-add two; comparisons, selections, signs and
/// conversions are none, and integer ops are none. A reduction over n invocations is n - 1.
struct KernelCost {
  double flops = 0;
  std::vector<ParamTraffic> params;  ///< in the kernel's order
  /// False when a branch or a loop depends on loaded data: the branch was then assumed taken and the loop to run
  /// once.
  bool decided = true;
};

/// The size of a kernel's code: one for each op and lane of its text, loops and branches counted once. A driver's
/// machine code grows with it, and its compile time grows faster.
int64_t codeSize(const Item& kernel);

/// The cost of a kernel dispatched with this many workgroups along each axis. Follows branches and trip counts
/// invocation by invocation. Of a grid with many workgroups, only the first, the last and some evenly spread between
/// are followed along each axis; each of those between stands for its neighbours. Exact where only the last workgroup
/// differs, as with a guard, and within a percent where the cost grows linearly.
KernelCost kernelCost(const Module& module, const Item& kernel, const std::array<int64_t, 3>& grid);

}  // namespace tg
