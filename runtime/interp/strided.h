// SPDX-License-Identifier: Apache-2.0
// Row-major loops over shapes that update the operands' offsets step by step.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "ir/type.h"

namespace tg {

/// For each axis of the loop's shape, the change of an operand's offset in one step along it.
using Strides = std::array<int64_t, kMaxRank>;

inline Strides denseStrides(const Shape& shape) {
  Strides strides{};
  int64_t step = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    strides[axis] = step;
    step *= shape[axis];
  }
  return strides;
}

/// Strides of an operand of shape `from` that broadcasts to `to`: axes are aligned at the end, and a repeated axis has
/// stride 0.
inline Strides broadcastStrides(const Shape& from, const Shape& to) {
  const Strides dense = denseStrides(from);
  const int added = to.rank() - from.rank();
  Strides strides{};
  for (int axis = added; axis < to.rank(); ++axis)
    strides[axis] = from[axis - added] == 1 ? 0 : dense[axis - added];
  return strides;
}

/// Calls fn(index, offsets) for every element of `shape` in row-major order. The offsets begin at `start` and follow
/// `strides`.
template <size_t N, class Fn>
void visit(const Shape& shape, const std::array<Strides, N>& strides, std::array<int64_t, N> start, Fn&& fn) {
  std::array<int64_t, kMaxRank> index{};
  const int64_t total = shape.elements();
  for (int64_t at = 0; at < total; ++at) {
    fn(at, start);
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      for (size_t k = 0; k < N; ++k) start[k] += strides[k][axis];
      if (++index[axis] < shape[axis]) break;
      index[axis] = 0;
      for (size_t k = 0; k < N; ++k) start[k] -= strides[k][axis] * shape[axis];
    }
  }
}

/// The same for one operand: fn(index, offset).
template <class Fn>
void visit(const Shape& shape, const Strides& strides, int64_t start, Fn&& fn) {
  visit<1>(shape, {strides}, {start},
           [&](int64_t at, const std::array<int64_t, 1>& offset) { fn(at, offset[0]); });
}

}  // namespace tg
