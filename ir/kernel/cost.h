// SPDX-License-Identifier: Apache-2.0
// What a dispatch costs: the floating-point operations and the bytes of its invocations, counted from the
// text.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "ir/module.h"

namespace tg {

/// Loads and stores through one parameter, over all invocations of a dispatch. Bytes, each access counted:
/// what a cache may answer counts too.
struct ParamTraffic {
  double loaded = 0, stored = 0;
};

/// Counts of one dispatch. Additions, subtractions, products, quotients, minima, maxima and functions (sqrt,
/// exp, …) of floats are one operation for each lane, a fused multiply-add two; comparisons, selections,
/// signs, conversions and everything on integers none. A reduction over n invocations is n - 1.
struct KernelCost {
  double flops = 0;
  std::vector<ParamTraffic> params;  ///< in the kernel's order
  /// False when a branch or a loop depends on loaded data: the branch was then taken to hold and the loop to
  /// run once.
  bool decided = true;
};

/// How much code a kernel is: the operations of its text, each lane of a vector counted, loops and branches
/// once. What a driver compiles grows with it, and its compiler's time faster.
int64_t codeSize(const Item& kernel);

/// The cost of a kernel launched with this many workgroups along each axis. Branches and trip counts are
/// followed invocation by invocation. Of a grid with many workgroups only the first, the last and evenly
/// spread ones between are followed along each axis, and the others taken to be like them: exact where
/// they differ at the end alone, as with a guard, and within a percent where the cost grows linearly.
KernelCost kernelCost(const Module& module, const Item& kernel, const std::array<int64_t, 3>& grid);

}  // namespace tg
