// SPDX-License-Identifier: Apache-2.0
// Lowering of one fused region (tg.fused) to one kernel (tgk ops), by the schedule that is written on it.
#pragma once

#include <memory>
#include <vector>

#include "ir/module.h"
#include "ir/result.h"
#include "ir/target.h"

namespace tg {

struct LoweredKernel {
  std::unique_ptr<Item> kernel;  ///< kind kernel, no name yet

  /// What each kernel parameter stands for. A binding may have several parameters (a texel view of vectors beside
  /// one of scalars), or none if the region does not read it.
  struct Param {
    bool isResult = false;
    int index = 0;     ///< binding or result slot
    int binding = -1;  ///< of an inout result: the binding whose value it starts with, else -1
  };
  std::vector<Param> params;
  /// Workgroups along x, y, z.
  std::array<int64_t, 3> grid{1, 1, 1};
};

/// Lowers a tg.fused op by its schedule. `mayTexel[binding]` allows texel reads of that binding: the target wants
/// them and no result overwrites its bytes. An error names the limit of the target that the kernel exceeds.
Result<LoweredKernel> lowerRegion(const Op& fused, const Target& target, const std::vector<bool>& mayTexel);

/// Lowers a tg.fused op around a tg.custom: copies the kernel of `module` that it calls, with the shapes of this
/// call and the same order of parameters. An error names the limit of the target that the kernel exceeds.
Result<LoweredKernel> lowerCustom(const Module& module, const Op& fused, const Target& target);

}  // namespace tg
