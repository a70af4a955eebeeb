// SPDX-License-Identifier: Apache-2.0
// Computes the results of a region from the sums of its product, which are held as matrices. Private to codegen/.
#pragma once

#include <array>
#include <vector>

#include "codegen/fragment_epilogue.h"

namespace tg {

/// The part of a product that a subgroup holds.
struct FragmentTile {
  Index batch, top, left;       ///< the batch; the part's first row and column in it
  std::array<int64_t, 2> warp;  ///< rows and columns of the part
  int64_t patch;                ///< columns that go through shared memory at a time
  KV subgroup;                  ///< the subgroup's number in the workgroup
  int64_t subgroups;            ///< number of subgroups in the workgroup
};

/// Computes and stores all results of the region from the sums, one row of matrices after another. `operands` come
/// from FragmentEpilogue::operandsOf.
void storeFragments(LowerContext& c, const Product& p, const FragmentEpilogue::Operands& operands,
                    const FragmentTile& tile, const std::vector<KV>& sums);

}  // namespace tg
