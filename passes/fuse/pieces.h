// SPDX-License-Identifier: Apache-2.0
// Sums in equal pieces. Where the count has no suitable divisor, the last piece is filled up.
#pragma once

#include <vector>

#include "ir/builder.h"
#include "ir/divide.h"
#include "passes/fuse/cost.h"

namespace tg::fuse {

/// A sum of n terms in `count` pieces of `width`; the last may lack some terms.
struct Pieces {
  int64_t count = 1, width = 1;
  int64_t missing(int64_t n) const { return count * width - n; }
};

/// At most `limit` pieces of multiples of `unit` terms. If n can be divided evenly into at least limit / 16 such
/// pieces, they are even; otherwise, as for primes, there are about `limit`, and the caller fills up the last one.
inline Pieces piecesUpTo(int64_t n, int64_t limit, int64_t unit = 1) {
  const int64_t even = n % unit == 0 ? divisorUpTo(n / unit, limit) : 1;
  if (16 * even >= limit) return {even, n / even};
  const int64_t width = alignTo(divideCeil(n, limit), unit);
  return {divideCeil(n, width), width};
}

/// `x` with `missing` elements of `value` appended along an axis; `x` itself if none are missing.
inline Value* filled(Builder& b, Value* x, int axis, int64_t missing, double value = 0) {
  const std::vector<int64_t> low(static_cast<size_t>(x->type.rank()));
  std::vector<int64_t> high = low;
  high[static_cast<size_t>(axis)] = missing;
  return b.pad(x, low, high, value);
}

}  // namespace tg::fuse
