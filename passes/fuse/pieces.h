// SPDX-License-Identifier: Apache-2.0
// Sums in equal pieces, also of counts without a divisor: what lacks behind the end is filled.
#pragma once

#include <utility>
#include <vector>

#include "ir/builder.h"
#include "passes/fuse/cost.h"

namespace tg::fuse {

/// A sum of n terms in pieces of `width`; the last of them may lack some.
struct Pieces {
  int64_t count = 1, width = 1;
  int64_t missing(int64_t n) const { return count * width - n; }
};

/// At most `limit` pieces, of multiples of `unit` terms: a divisor of n, or about `limit` where n has none that is at
/// least a sixteenth of it, as primes have none. Zeros are then read behind the end.
inline Pieces piecesUpTo(int64_t n, int64_t limit, int64_t unit = 1) {
  const int64_t even = divisorUpTo(n / unit, limit);
  if (16 * even >= limit) return {even, n / even};
  const int64_t width = ((n + limit - 1) / limit + unit - 1) / unit * unit;
  return {(n + width - 1) / width, width};
}

/// `x` with `missing` elements of a value behind its end along an axis; `x` itself where none are missing.
inline Value* filled(Builder& b, Value* x, int axis, int64_t missing, double value = 0) {
  if (missing == 0) return x;
  const std::vector<int64_t> low(static_cast<size_t>(x->type.rank()));
  std::vector<int64_t> high = low;
  high[static_cast<size_t>(axis)] = missing;
  return b.op(Opcode::pad, {x},
              {{"low", Attr::ints(low)}, {"high", Attr::ints(high)}, {"value", Attr::of(value)}});
}

}  // namespace tg::fuse
