// SPDX-License-Identifier: Apache-2.0
// Lowering of one fused region (tg.fused) to one kernel (tgk ops), by the schedule that is written on it; and what fits
// a kernel to its target.
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
    int index = 0;      ///< binding or result slot
    int binding = -1;   ///< of an inout result: the binding whose value it starts with, else -1
    int64_t first = 0;  ///< bytes of the value in front of the first that the kernel reads
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

/// If the target lacks the shape of a kernel's tgk.coopmat_mma, splits each of the kernel's matrices into matrices
/// of the largest shape that the target has and that divides the kernel's: 16x16x16 becomes 8 products of 8x8x8.
/// Sums along k keep their order. A kernel that no shape divides is left as it is; the check of the target's
/// features refuses it.
void splitMatrices(Item& kernel, const Target& target);

/// An error for each op or parameter that needs a feature the target lacks, at its place:
/// `tgk.subgroup_reduce [kernel.feature]: needs `subgroups`, which target 'vulkan-min' lacks`.
/// Atomic additions of f32 have a fallback and need none.
Result<void> checkFeatures(const Item& kernel, const Target& target);

/// Ends loops in lanes without an invocation, if the target limits the iterations of all lanes together (clampLoops).
void endLoops(Item& kernel, const Target& target);

/// Unrolls loops by repeating their bodies, if an invocation could make more iterations than the target's
/// `loop_iterations`. False if the number of iterations depends on data, so that the kernel must check it at run
/// time. An error if there are too many iterations in any case.
Result<bool> fitLoops(Item& kernel, const Target& target);

}  // namespace tg
