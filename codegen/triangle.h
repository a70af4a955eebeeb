// SPDX-License-Identifier: Apache-2.0
// Matrices of which only a triangle counts, as causal attention makes them: products leave out what a mask
// hides and what is zero. Private to codegen/ and lower-kernels.
//
//   %s = tg.matmul %q, %k   %m = tg.select %mask, %s, -inf      hidden: above the diagonal nobody reads %s
//   %p = tg.exp(%m - max)   %o = tg.matmul %p, %v               lower: %p is zero there
//
// Where all kernels that read a result leave out what is hidden, block by block, it is stored up to their blocks across
// the diagonal and no further:
//
//     unread = 2      x 0 - - - -      x  computed
//                     x x - - - -      0  hidden and stored
//                     x x x 0 - -      -  hidden, in tiles above the diagonal's: not stored
//                     x x x x - -
#pragma once

#include "ir/module.h"
#include "ir/result.h"

namespace tg {

// Elements of a value's last two axes are above the diagonal where column > row + columns - rows: the
// diagonal ends in the last row's last column.

/// What the product of a region may leave out, by all that the function's other kernels tell.
struct Skips {
  bool lower = false;   ///< its first operand is zero above the diagonal
  bool hidden = false;  ///< nothing depends on what its result has there
  bool zeros = false;   ///< and the region's results are zero there
};
Skips skipsOf(const Op& fused);

/// An error where the schedule of a region leaves out what counts.
Result<void> checkSkips(const Op& fused);

}  // namespace tg
