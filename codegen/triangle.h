// SPDX-License-Identifier: Apache-2.0
// Matrices of which only one triangle matters, as in causal attention. Kernels of products skip what a mask hides
// and what is zero. Private to codegen/ and lower-kernels.
//
//   %s = tg.matmul %q, %k   %m = tg.select %mask, %s, -inf      hidden: above the diagonal nobody reads %s
//   %p = tg.exp(%m - max)   %o = tg.matmul %p, %v               lower: %p is zero there
//
// If all kernels that read a result skip what is hidden, block by block, the result is stored up to their blocks
// across the diagonal and no further:
//
//     unread = 2      x 0 - - - -      x  computed
//                     x x - - - -      0  hidden and stored
//                     x x x 0 - -      -  hidden, in tiles above the diagonal's: not stored
//                     x x x x - -
#pragma once

#include "ir/module.h"
#include "ir/result.h"

namespace tg {

// An element of a value's last two axes is above the diagonal if column > row + columns - rows: the diagonal ends
// in the last row's last column.

/// What the product of a region may skip, judged by all other kernels of the function.
struct Skips {
  bool lower = false;   ///< its first operand is zero above the diagonal
  bool hidden = false;  ///< nothing depends on the elements above the diagonal of its result
  bool zeros = false;   ///< and the region's results are zero there
};
Skips skipsOf(const Op& fused);

/// An error if the schedule of a region skips elements that matter.
Result<void> checkSkips(const Op& fused);

}  // namespace tg
