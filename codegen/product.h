// SPDX-License-Identifier: Apache-2.0
// The product (tg.matmul) of a region: its extents, its operands' elements, and its epilogue. Shared by the
// lowerings of contractions. Private to codegen/.
#pragma once

#include <array>
#include <vector>

#include "codegen/lower_schedules.h"

namespace tg {

/// The product of a region, batch x (m x k by k x n); batch is the product of the leading axes.
struct Product {
  const Op* op = nullptr;
  int64_t m = 1, n = 1, k = 1, batch = 1;
  bool ta = false, tb = false;
  Shape lead;
};

/// The product that the schedule computes. An error if the region has none, or if a result has not as many elements
/// as the product.
Result<Product> findProduct(const LowerContext& c);

/// The indices of operand `which` for a batch (`lead`), row and column of its untransposed view.
Indices operandIndices(const Product& p, int which, const Indices& lead, const Index& row,
                       const Index& column);
/// The element of operand `which` at a batch, row and column of its untransposed view, rounded as the product's
/// precision asks.
KV element(RegionEmitter& emitter, const Product& p, int which, const Indices& lead, const Index& row,
           const Index& column);

/// The same without the rounding.
KV plainElement(RegionEmitter& emitter, const Product& p, int which, const Indices& lead, const Index& row,
                const Index& column);

/// A factor rounded to the product's precision, in f32. For f32x3 it is not rounded: x itself is more exact than
/// the sum of its halves.
KV rounded(KernelBuilder& kernel, const Op& product, const KV& x);

/// The rows of the left operand, or the columns of the right one, that memory holds. More than the product's m or n if the
/// operand is the beginning of rows that are longer, up to a multiple of 8; what lies behind it enters no result.
int64_t readableExtent(const Product& p, int which);

/// Which way vectors of four of operand `which` run: along k (true) or along its other axis. They run as the
/// operand's rows lie in memory, unless four divide only the other extent; along k if four divide none. `depth` stands
/// for the extent along k: the number of k that are taken at a time.
bool liesAlongK(const Product& p, int which, int64_t depth);
/// The innermost extent of a convolution's windows if a factor is a view of windows (tg.unfold), else 0.
int64_t innermostWindow(const Value* factor);
/// For each operand, whether vectors need fewer loads the other way than liesAlongK says, because views and maps
/// between memory and the product transpose it.
std::array<bool, 2> turnedOperands(const Op& fused, const PlainRegion& region, const Product& p,
                                   int64_t depth);
/// The product of a region, whatever its results are; `op` is null if there is none.
Product productIn(const PlainRegion& region);

/// Emits the epilogue and stores every result of the region at the elements of a tile. `acc` has the sums of the
/// tile, row by row, as scalars or, with `vector`, as vectors of four columns. 16-bit results are stored as words
/// if a vector tile is eight columns wide.
void epilogue(LowerContext& c, const Product& p, const Index& batch, const Index& m0, const Index& n0,
              int64_t tileM, int64_t tileN, bool vector, const std::vector<KV>& acc);
/// Stores zero in every result at an element, or at four neighbouring columns with `vector`.
void storeZero(LowerContext& c, const Product& p, const Index& batch, const Index& row, const Index& column,
               bool vector);

}  // namespace tg
