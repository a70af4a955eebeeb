// SPDX-License-Identifier: Apache-2.0
// The product of a region, what its operands and results are at a place: shared by the lowerings of
// contractions. Private to codegen/.
#pragma once

#include <array>
#include <vector>

#include "codegen/lower_schedules.h"

namespace tg {

/// The contraction of a region and its extents; batch is the product of the leading axes.
struct Product {
  const Op* op = nullptr;
  int64_t m = 1, n = 1, k = 1, batch = 1;
  bool ta = false, tb = false;
  Shape lead;
};

/// The product of the region that the schedule computes; an error where the region has none, or a result has
/// not an element for each of the product's.
Result<Product> findProduct(const LowerContext& c);

/// Where (batch, row, column) of operand `which` lies, row and column of its untransposed view.
Indices operandIndices(const Product& p, int which, const Indices& lead, const Index& row,
                       const Index& column);
/// Operand `which` at (batch, row, column) of its untransposed view, as the product takes it: rounded as its
/// precision says.
KV element(RegionEmitter& emitter, const Product& p, int which, const Indices& lead, const Index& row,
           const Index& column);

/// The same before it is rounded.
KV plainElement(RegionEmitter& emitter, const Product& p, int which, const Indices& lead, const Index& row,
                const Index& column);

/// A factor as the precision of tg.matmul takes it, in f32; that of f32x3 as it is, which is nearer than its halves.
KV rounded(KernelBuilder& kernel, const Op& product, const KV& x);

/// Whether vectors of four of operand `which` lie along k, else along its other axis, where `depth` of k are
/// taken at a time, if nothing is turned: as it lies in memory, the other way where four divide only that
/// extent, and `neither` where they divide none.
bool liesAlongK(const Product& p, int which, int64_t depth, bool neither);
/// The innermost extent of a convolution's windows where a factor is made of them, else 0. The elements of such a factor lie
/// four in a row nowhere.
int64_t innermostWindow(const Value* factor);
/// Of both operands, whether vectors come in fewer loads the other way than liesAlongK says: views and maps
/// between memory and the product may turn them.
std::array<bool, 2> turnedOperands(const Op& fused, const PlainRegion& region, const Product& p,
                                   int64_t depth, bool neither);
/// The product of a region, whatever its results are; `op` is null where there is none.
Product productIn(const PlainRegion& region);

/// Stores every result of the region at the tile's elements, the product being in `acc`
/// (row-major, `width` accumulators a row of `lanes` columns each). Results of 16 bits are stored as words where
/// a vector tile is eight columns wide.
void epilogue(LowerContext& c, const Product& p, const Index& batch, const Index& m0, const Index& n0,
              int64_t tileM, int64_t tileN, bool vector, const std::vector<KV>& acc);
/// Stores zero where the element's results stand, or those of four columns beside each other.
void storeZero(LowerContext& c, const Product& p, const Index& batch, const Index& row, const Index& column,
               bool vector);

}  // namespace tg
