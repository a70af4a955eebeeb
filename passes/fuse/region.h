// SPDX-License-Identifier: Apache-2.0
// A region while form-regions builds it, and the properties by which ops may join it.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "ir/module.h"
#include "ir/rows.h"

namespace tg::fuse {

/// The loops of a kernel: over elements (map), rows, a product's elements, or results that are sums. An op cannot join a
/// closed one, except as joins() says.
enum class Space : uint8_t { map, row, product, sum, closed };

struct Region {
  Space space = Space::map;
  int64_t elements = 0;  ///< of each result, in map, product and sum; a window counts as a sum
  RowSpace rows;         ///< row
  std::vector<Op*> ops;  ///< in text order
};

/// The ops that read each value, looking through inline ops.
using Readers = std::unordered_map<const Value*, std::vector<Op*>>;

/// Whether nothing but an op, and ops of the region itself, reads the results of a region's ops.
bool isReadOnlyBy(const Op& op, const Region& region, const Readers& readers);

/// The region that an op forms by itself; its ops are not filled in.
Region aloneInRegion(const Op& op);

/// Whether `op` reads `base` in the order of its elements: only reshapes and widening casts lie between.
bool keepsOrder(const Op& op, const Value* base);

/// Whether an op casts an attention's result to 16 bits, which the attention's kernel can do as it stores.
bool roundsAttention(const Op& op, const Value& value);

/// Whether a region is a scatter: the invocation that writes an element sums it, so an elementwise op may follow.
bool scatters(const Region& region);

/// Whether an op reads each element of a fold at most once, in slices: the fold's kernel can compute the op, and leaves out
/// what is cut off. Folds are cut where their windows lie on padding.
bool slicesFold(const Op& op, const Value& fold);

/// Whether a transpose puts elements of different rows side by side: a kernel over rows that stored its result would
/// compute a whole row for each element.
bool mixesRows(const Op& op, const RowSpace& rows);

/// Whether joining would repeat random draws: `own`, a kernel over rows, would compute the map `other` in each pass,
/// drawing one number at a time. That costs more than to draw four at a time once and go through memory. With few
/// elements the additional dispatch would cost more, so the answer is false. A sum that alone reads the draws takes
/// each once.
bool repeatsDraws(const Region& own, const Region& other);

}  // namespace tg::fuse
