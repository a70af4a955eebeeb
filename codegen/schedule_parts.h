// SPDX-License-Identifier: Apache-2.0
// What the choosers of schedules share, and with the lowerings that carry them out. Private to codegen/.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "ir/module.h"
#include "ir/target.h"

namespace tg {

inline Attr scheduleAttr(const char* kind, AttrList members) {
  return Attr::call(kind, {}, std::move(members));
}

/// Invocations of a workgroup along x.
inline int64_t largestGroup(const Target& target) {
  return std::min(target.maxInvocations, target.maxWorkgroupX);
}

/// The largest divisor of n among the candidates, which end with 1.
inline int64_t divisor(int64_t n, std::initializer_list<int64_t> candidates) {
  for (int64_t candidate : candidates)
    if (n % candidate == 0) return candidate;
  return 1;
}

inline int64_t roundUpToPowerOfTwo(int64_t n) {
  int64_t power = 1;
  while (power < n) power *= 2;
  return power;
}

/// Extents of a contraction; batch is the product of the leading axes.
struct ProductSizes {
  int64_t m, n, inner, batch;
};
inline ProductSizes productSizes(const Op& product) {
  const Shape &shape = product.result()->type.shape, &a = product.in(0)->type.shape;
  int64_t m = shape[shape.rank() - 2], n = shape.back();
  int64_t inner = a[a.rank() - (product.flag("transpose_a") ? 2 : 1)];
  return {m, n, inner, shape.elements() / (m * n)};
}

/// A tile of a product for each invocation, `depth` of k at a time.
struct RegisterTile {
  int64_t m = 1, n = 1, depth = 1, workgroup = 8;
  Attr schedule() const;
};
RegisterTile registerTile(const Op& product, const Target& target);
/// Other tiles, the likelier ones first.
std::vector<Attr> registerNeighbours(const Op& product, const Target& target);

/// The schedule, or the first smaller one by which the elements that an invocation computes by straight code
/// are no more operations than the target wants in a kernel.
Attr withinBudget(const Op& fused, const Target& target, Attr schedule);

/// A product staged in shared memory: how a workgroup divides its block.
struct SharedBlocking {
  int64_t tile[2];     ///< rows and columns of an invocation
  int64_t block[2];    ///< rows and columns of a workgroup
  int64_t depth;       ///< of a tile along k
  int64_t slices = 1;  ///< parts of a tile along k; as many invocations share each place of the block
  int64_t across() const { return block[1] / tile[1]; }
  int64_t places() const { return block[0] / tile[0] * across(); }
  int64_t invocations() const { return places() * slices; }
  /// Of shared memory, at most: two tiles, each row of one a vector longer, and the sums of the slices.
  int64_t bytes() const {
    return 4 * (depth * (block[0] + block[1] + 8) + (slices > 1 ? slices * block[0] * block[1] : 0));
  }
};

/// Of a contraction.
Attr matmulSchedule(const Op& product, const Target& target);
/// Others that the product and the target allow, the likelier ones first.
std::vector<Attr> matmulNeighbours(const Op& product, const Target& target, const Attr& chosen);

}  // namespace tg
