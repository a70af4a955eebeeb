// SPDX-License-Identifier: Apache-2.0
// Row-major walks over shapes, with the operands' offsets kept up to date step by step.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "ir/type.h"

namespace tg {

/// How far an operand's offset moves for one step along each axis of the walked shape.
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

/// Strides of an operand of shape `from` seen at the axes of `to`, which it broadcasts to: axes
/// align at the end, a repeated axis does not move.
inline Strides broadcastStrides(const Shape& from, const Shape& to) {
  const Strides dense = denseStrides(from);
  const int added = to.rank() - from.rank();
  Strides strides{};
  for (int axis = added; axis < to.rank(); ++axis)
    strides[axis] = from[axis - added] == 1 ? 0 : dense[axis - added];
  return strides;
}

/// Calls fn(index, offsets) for every element of `shape` in row-major order; `offsets` starts at
/// `start` and follows `strides`.
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
