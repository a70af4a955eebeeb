// SPDX-License-Identifier: Apache-2.0
// From the sums of a product, held as matrices, to the results of its region. Private to codegen/.
#pragma once

#include <array>
#include <vector>

#include "codegen/fragment_epilogue.h"

namespace tg {

/// A subgroup's part of a product.
struct FragmentTile {
  Index batch, top, left;       ///< which product, its first row and column there
  std::array<int64_t, 2> warp;  ///< rows and columns
  int64_t patch;                ///< columns that go through shared memory at a time
  KV subgroup;                  ///< its number
  int64_t subgroups;            ///< of the workgroup
};

/// Computes and stores all results of the region from its sums, row by row of matrices. `operands` are those of
/// FragmentEpilogue::operandsOf.
void storeFragments(LowerContext& c, const Product& p, const FragmentEpilogue::Operands& operands,
                    const FragmentTile& tile, const std::vector<KV>& sums);

}  // namespace tg
